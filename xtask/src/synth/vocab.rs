//! A byte-pair vocabulary of any size that a tokenizer can really use: every byte is a token, and merges build words of
//! lower-case letters.

use super::gguf::Header;

/// Special tokens, which come first.
const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// How byte-level vocabularies write a space.
const SPACE: &str = "\u{120}";
const LETTERS: std::ops::RangeInclusive<char> = 'a'..='z';

/// Types of tokens in GGUF files.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;

/// A vocabulary: tokens by id, and the merges in order of rank.
pub(super) struct Vocab {
    pub(super) tokens: Vec<String>,
    pub(super) merges: Vec<String>,
}

/// The vocabulary of `size` tokens.
///
/// # Panics
/// If `size` is less than the special tokens and the bytes, or more than four-letter words allow (493,765).
pub(super) fn build(size: usize) -> Vocab {
    let mut tokens: Vec<String> = SPECIAL.map(String::from).into();
    tokens.extend((0..=255).map(|byte| byte_char(byte).to_string()));
    let count = size.checked_sub(tokens.len()).unwrap_or_else(|| panic!("{size} tokens are too few"));
    let pairs: Vec<(String, String)> = pairs().take(count).collect();
    assert_eq!(pairs.len(), count, "{size} tokens are too many");
    tokens.extend(pairs.iter().map(|(left, right)| format!("{left}{right}")));
    Vocab { tokens, merges: pairs.iter().map(|(left, right)| format!("{left} {right}")).collect() }
}

/// Both parts of every merge; each part is a byte or the result of an earlier merge, and no two merges give the same token.
fn pairs() -> impl Iterator<Item = (String, String)> {
    let words = |len: usize| (0..26_usize.pow(len as u32)).map(move |index| word(index, len));
    let split = move |len: usize, at: usize| {
        words(len).map(move |word| (word[..at].to_string(), word[at..].to_string()))
    };
    let spaced = move |len: usize| words(len).map(|word| (SPACE.to_string(), word));
    split(2, 1).chain(spaced(1)).chain(spaced(2)).chain(split(3, 2)).chain(spaced(3)).chain(split(4, 2))
}

/// The word of `len` letters with this index in alphabetical order.
fn word(mut index: usize, len: usize) -> String {
    let letters: Vec<char> = LETTERS.collect();
    let mut word = vec!['a'; len];
    for place in word.iter_mut().rev() {
        *place = letters[index % letters.len()];
        index /= letters.len();
    }
    word.into_iter().collect()
}

/// How byte-level vocabularies write a byte: printable ones as themselves, the others as the characters from 256 on.
fn byte_char(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return byte.into();
    }
    let rank = (0..byte).filter(|&other| !printable(other)).count() as u32;
    char::from_u32(256 + rank).unwrap_or('?')
}

/// Appends the metadata of the vocabulary of `size` tokens.
pub(super) fn describe(size: u32, header: &mut Header) {
    let vocab = build(size as usize);
    let types: Vec<i32> =
        (0..vocab.tokens.len()).map(|id| if id < SPECIAL.len() { CONTROL } else { NORMAL }).collect();
    header.string("tokenizer.ggml.model", "gpt2");
    header.string("tokenizer.ggml.pre", "smollm");
    header.strings("tokenizer.ggml.tokens", &vocab.tokens);
    header.i32s("tokenizer.ggml.token_type", &types);
    header.strings("tokenizer.ggml.merges", &vocab.merges);
    header.u32("tokenizer.ggml.bos_token_id", 1);
    header.u32("tokenizer.ggml.eos_token_id", 2);
    header.u32("tokenizer.ggml.unknown_token_id", 0);
    header.u32("tokenizer.ggml.padding_token_id", 2);
    header.bool("tokenizer.ggml.add_bos_token", false);
}
