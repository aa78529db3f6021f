//! Text that comes token by token.

use cera_models::tokenizer::{Detokenizer, Tokenizer};
use cera_testkit::rng::Rng;

use crate::support::{Toy, kind, open};

/// The chunks of tokens that are pushed one by one, the last being what was held back.
fn chunks(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut detokenizer = Detokenizer::new(tokenizer);
    let mut chunks: Vec<String> = ids.iter().map(|&id| detokenizer.push(id).unwrap()).collect();
    chunks.push(detokenizer.finish());
    chunks
}

/// The text of the bytes of tokens, put together first.
fn whole(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.piece(id).unwrap()).copied().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Case 68: no chunk has a part of a character; bytes that cannot become one are U+FFFD at once; all chunks together are
/// the text, wherever it ends.
#[test]
fn case_68_chunks_are_whole_characters_and_make_the_text() {
    let toy = Toy::pieces().key(|file| file.kv_bool("tokenizer.ggml.add_space_prefix", false));
    let toy = toy.token("\u{1f60a}", kind::NORMAL);
    let tokenizer = toy.build();
    let byte = |byte: u8| toy.id(&format!("<0x{byte:02X}>"));
    let cases: [(&[u8], &[&str]); 8] = [
        (&[0xF0, 0x9F, 0x98, 0x8A], &["", "", "", "\u{1f60a}", ""]),
        (&[0xF0, 0x9F, 0x20, 0xF0], &["", "", "\u{fffd} ", "", "\u{fffd}"]),
        (&[0xFF], &["\u{fffd}", ""]),
        (&[0xF0, 0x9F], &["", "", "\u{fffd}"]),
        (&[0xF0, 0xFF, 0x41], &["", "\u{fffd}\u{fffd}", "A", ""]),
        (&[0xE4, 0xB8, 0xAD, 0x80], &["", "", "中", "\u{fffd}", ""]),
        (&[0xED, 0xA0, 0x80], &["", "\u{fffd}\u{fffd}", "\u{fffd}", ""]),
        (&[0xC3, 0xC3, 0xA9], &["", "\u{fffd}", "é", ""]),
    ];
    for (bytes, expected) in cases {
        let ids: Vec<u32> = bytes.iter().map(|&b| byte(b)).collect();
        assert_eq!(chunks(&tokenizer, &ids), expected, "{bytes:02X?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), String::from_utf8_lossy(bytes), "{bytes:02X?}");
    }
    let mixed = [byte(0xF0), toy.id("\u{1f60a}"), byte(0x9F)];
    assert_eq!(chunks(&tokenizer, &mixed), ["", "\u{fffd}\u{1f60a}", "\u{fffd}", ""]);
}

#[test]
fn chunks_of_random_tokens_make_the_text() {
    let toy = Toy::pieces().key(|file| file.kv_bool("tokenizer.ggml.add_space_prefix", false)).build();
    for tokenizer in [toy, open("tokenizers/smollm2.gguf.gz"), open("tokenizers/gpt-2.gguf.gz")] {
        let mut rng = Rng::new(4446);
        for _ in 0..2000 {
            let range = rng.pick(&[260, 600, tokenizer.vocabulary()]).min(tokenizer.vocabulary());
            let ids: Vec<u32> = (0..rng.below(12)).map(|_| rng.below(range) as u32).collect();
            let chunks = chunks(&tokenizer, &ids);
            assert_eq!(chunks.concat(), whole(&tokenizer, &ids), "{ids:?}");
            assert_eq!(chunks.concat(), tokenizer.decode(&ids).unwrap(), "{ids:?}");
        }
    }
}

/// The space that was put before a text is no part of it; the one before an answer is.
#[test]
fn the_space_before_a_text_is_left_out_at_its_beginning_only() {
    let tokenizer = open("tokenizers/llama-spm.gguf.gz");
    let ids = tokenizer.encode("Hello world", cera_models::tokenizer::EncodeOptions::default()).unwrap();
    assert_eq!(tokenizer.decode(&ids).unwrap(), "<s>Hello world");
    assert_eq!(chunks(&tokenizer, &ids).concat(), "<s>Hello world");
    let mut answer = Detokenizer::continued(&tokenizer).without_control();
    let text: String = ids.iter().map(|&id| answer.push(id).unwrap()).collect();
    assert_eq!(text + &answer.finish(), " Hello world");
}

#[test]
fn a_token_outside_of_the_vocabulary_changes_nothing() {
    let tokenizer = Toy::bytes().pre("gpt-2").build();
    let mut detokenizer = Detokenizer::new(&tokenizer);
    assert_eq!(detokenizer.push(0xC3).unwrap(), "");
    assert!(detokenizer.push(256).is_err());
    assert_eq!(detokenizer.push(0xA9).unwrap(), "é");
}
