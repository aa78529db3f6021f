//! The pre-tokenizers of byte-level vocabularies: how a text is cut into words before pairs are merged.
//!
//! Source: the `pre_tokenizer` and `normalizer` of each model's published `tokenizer.json`. The names are the values of
//! `tokenizer.ggml.pre` that converters write.

use std::ops::Range;

use fancy_regex::{Regex, RegexBuilder};
use tokenizers::{NormalizedString, Normalizer, normalizers};

use super::TokenizerError;

/// The name that stands in for a missing or unknown one.
pub(super) const FALLBACK: &str = "default";

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const SEED: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const DIGIT: &str = r"\p{N}";
const DIGITS: &str = r"\p{N}+";
const UP_TO_3: &str = r"\p{N}{1,3}";
const EVERY_3: &str = "[0-9][0-9][0-9]";
const LINE_END: &str = r"[\r\n]";
const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|`]+";
const PUNCTUATION_NO_BACKTICK: &str = r"[\p{P}\$\+<=>\^~\|]+";
const CJK: &str = "[一-龥\u{800}-一가-\u{d7ff}]+";
const CJK_KANA: &str = "[一-龥\u{3040}-ゟ゠-ヿ]+";
const DEEPSEEK_WORDS: &str = concat!(
    r"\s?[",
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ",
    "ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ",
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃",
    "]+"
);
const DEEPSEEK_MARKS: &str = "\\s?[!-/:-~！-／：-～‘-‟\u{3000}-。]+";

/// A pre-tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pre {
    /// The values of `tokenizer.ggml.pre` that mean it.
    names: &'static [&'static str],
    /// The patterns, each applied to every piece that those before it left. Matches and what is between them are pieces.
    splits: &'static [&'static str],
    /// Whether a word that is a token is one, whatever the merges would make of it.
    pub(super) ignore_merges: bool,
    /// Whether texts begin with BOS where the file does not say.
    pub(super) add_bos: bool,
    /// Whether texts are brought to normalization form C first.
    nfc: bool,
}

const fn pre(names: &'static [&'static str], splits: &'static [&'static str]) -> Pre {
    Pre { names, splits, ignore_merges: false, add_bos: false, nfc: false }
}

impl Pre {
    const fn ignoring_merges(self) -> Pre {
        Pre { ignore_merges: true, ..self }
    }

    const fn with_bos(self) -> Pre {
        Pre { add_bos: true, ..self }
    }

    const fn nfc(self) -> Pre {
        Pre { nfc: true, ..self }
    }
}

#[rustfmt::skip]
const TABLE: &[Pre] = &[
    pre(&[FALLBACK], &[PUNCTUATION_NO_BACKTICK, GPT2, DIGITS, EVERY_3]),
    pre(&["gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "exaone4", "jais", "trillion", "granite-docling"], &[GPT2]),
    pre(&["mpt", "olmo", "modern-bert"], &[GPT2]).nfc(),
    pre(&["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"], &[DIGIT, GPT2]),
    pre(&["command-r"], &[DIGIT, GPT2]).nfc(),
    pre(&["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"], &[LLAMA3]).ignoring_merges().with_bos(),
    pre(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA3]),
    pre(&["glm4", "glm5"], &[LLAMA3]).ignoring_merges(),
    pre(&["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "grok-2", "solar-open", "kormo", "f2llmv2"], &[QWEN2]),
    pre(&["qwen35"], &[QWEN35]),
    pre(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT4O]),
    pre(&["tekken"], &[TEKKEN]).ignoring_merges().with_bos(),
    pre(&["deepseek-llm"], &[LINE_END, DEEPSEEK_WORDS, DEEPSEEK_MARKS, r"\s+$", CJK, DIGIT]),
    pre(&["deepseek-coder"], &[LINE_END, r"\s?\p{L}+", r"\s?\p{P}+", CJK, DIGIT]),
    pre(&["deepseek-v3", "hunyuan-dense", "joyai-llm"], &[UP_TO_3, CJK_KANA, DEEPSEEK_V3]),
    pre(&["falcon"], &[PUNCTUATION, GPT2, EVERY_3]),
    pre(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    pre(&["seed-coder"], &[SEED]),
    pre(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    pre(&["viking"], &[BLOOM, DIGIT]),
];

/// The pre-tokenizer of this name.
pub(super) fn find(name: &str) -> Option<&'static Pre> {
    TABLE.iter().find(|pre| pre.names.contains(&name))
}

/// Every name, as one line.
pub(super) fn names() -> String {
    let names: Vec<&str> = TABLE.iter().flat_map(|pre| pre.names).copied().collect();
    names.join(", ")
}

/// A pre-tokenizer with its patterns compiled.
#[derive(Debug)]
pub(super) struct Splitter {
    splits: Vec<Regex>,
    nfc: bool,
}

impl Splitter {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] if one is refused, which no pattern of the table is.
    pub(super) fn new(pre: &Pre) -> Result<Splitter, TokenizerError> {
        let compile = |pattern: &&str| {
            // The patterns of the table backtrack over white space once per run, never more: no limit is needed, and one
            // would refuse long runs.
            RegexBuilder::new(pattern).backtrack_limit(usize::MAX).build()
        };
        let splits: Result<Vec<Regex>, _> = pre.splits.iter().map(compile).collect();
        let splits = splits.map_err(|error| TokenizerError::library("compiling a pre-tokenizer", error))?;
        Ok(Splitter { splits, nfc: pre.nfc })
    }

    /// `text` in the form that words are cut from.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] if the normalizer refuses.
    pub(super) fn normal_form<'t>(&self, text: &'t str) -> Result<std::borrow::Cow<'t, str>, TokenizerError> {
        if !self.nfc || text.is_ascii() {
            return Ok(text.into());
        }
        let mut normalized = NormalizedString::from(text);
        normalizers::NFC
            .normalize(&mut normalized)
            .map_err(|error| TokenizerError::library("normalizing a text", error))?;
        Ok(normalized.get().to_owned().into())
    }

    /// The words of `text`, in order: none is empty, and together they are the text.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] if a pattern cannot be matched.
    pub(super) fn words(&self, text: &str) -> Result<Vec<Range<usize>>, TokenizerError> {
        let mut words = Vec::new();
        if !text.is_empty() {
            words.push(0..text.len());
        }
        for split in &self.splits {
            let mut finer = Vec::with_capacity(words.len());
            for word in words {
                isolate(split, text, word, &mut finer)?;
            }
            words = finer;
        }
        Ok(words)
    }
}

/// Appends the matches of `split` in `text[word]`, and what is between them.
fn isolate(
    split: &Regex,
    text: &str,
    word: Range<usize>,
    out: &mut Vec<Range<usize>>,
) -> Result<(), TokenizerError> {
    let mut end = word.start;
    for found in split.find_iter(&text[word.clone()]) {
        let found = found.map_err(|error| TokenizerError::library("splitting a text", error))?;
        let found = word.start + found.start()..word.start + found.end();
        for piece in [end..found.start, found.clone()] {
            if !piece.is_empty() {
                out.push(piece);
            }
        }
        end = found.end;
    }
    if end < word.end {
        out.push(end..word.end);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
