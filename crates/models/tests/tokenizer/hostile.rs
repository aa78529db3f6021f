//! Vocabularies that are not sound.

use cera_models::tokenizer::TokenizerError;
use cera_testkit::gguf::GgufWriter;
use cera_testkit::rng::Rng;

use crate::support::{PLAIN, SPECIAL, Toy, build, kind};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";

fn file(model: &str) -> GgufWriter {
    GgufWriter::new()
        .kv_str("general.architecture", "llama")
        .kv_str(MODEL, model)
        .kv_str("tokenizer.ggml.pre", "gpt-2")
}

/// A byte-level file with these merges.
fn merges(merges: &[&[u8]]) -> GgufWriter {
    file("gpt2").kv_strs(TOKENS, ["a", "b", "ab"]).kv_strs(MERGES, merges)
}

#[test]
fn faults_name_the_key_and_what_was_found() {
    let two = || file("llama").kv_strs(TOKENS, ["a", "b"]);
    let id = |role: &str, id: u32| {
        two().kv_f32s(SCORES, &[0.0; 2]).kv_u32(&format!("tokenizer.ggml.{role}_token_id"), id)
    };
    let cases = [
        (GgufWriter::new(), "tokenizer.ggml.model is missing"),
        (file("bert"), "tokenizer.ggml.model: expected gpt2 or llama, found string \"bert\""),
        (file("gpt2"), "tokenizer.ggml.tokens is missing"),
        (file("gpt2").kv_u32(TOKENS, 1), "tokenizer.ggml.tokens: expected an array of strings, found u32 1"),
        (file("gpt2").kv_strs::<&str>(TOKENS, []), "tokenizer.ggml.tokens: expected 1 to 4294967295 strings"),
        (
            file("gpt2").kv_strs(TOKENS, [&b"a"[..], b"\xff"]),
            "tokenizer.ggml.tokens: expected UTF-8 as element 1",
        ),
        (file("gpt2").kv_strs(TOKENS, ["a", "b", "a"]), "another text as element 2 than that of element 0"),
        (
            two().kv_i32s(TYPES, &[1]),
            "token_type: expected one for each of the 2 tokens, found an array of 1 i32",
        ),
        (two().kv_i32s(TYPES, &[1, 7]), "token_type: expected 0 to 6 as element 1, found i64 7"),
        (two().kv_i32s(TYPES, &[-1, 1]), "token_type: expected 0 to 6 as element 0, found i64 -1"),
        (two().kv_f32s(TYPES, &[1.0; 2]), "token_type: expected an integer"),
        (two(), "tokenizer.ggml.scores is missing"),
        (
            two().kv_f32s(SCORES, &[0.0]),
            "tokenizer.ggml.scores: expected one for each of the 2 tokens, found u64 1",
        ),
        (two().kv_f32s(SCORES, &[0.0, f32::NAN]), "tokenizer.ggml.scores: expected a number as element 1"),
        (id("bos", 2), "bos_token_id: expected a token of the vocabulary of 2, found u32 2"),
        (id("eot", 9), "eot_token_id: expected a token of the vocabulary of 2, found u32 9"),
        (
            id("bos", 0).kv_u32("tokenizer.ggml.add_bos_token", 1),
            "add_bos_token: expected a bool, found u32 1",
        ),
        (id("bos", 0).kv_u32("tokenizer.ggml.add_space_prefix", 1), "add_space_prefix: expected a bool"),
        (file("gpt2").kv_strs(TOKENS, ["a"]), "tokenizer.ggml.merges is missing"),
        (
            merges(&[b"a b", b"a c"]),
            "merges: expected two tokens of the vocabulary that make a third as element 1",
        ),
        (merges(&[b"b a"]), "merges: expected two tokens of the vocabulary that make a third as element 0"),
        (
            merges(&[b"ab"]),
            "merges: expected two tokens with a space between them as element 0, found string \"ab\"",
        ),
        (merges(&[b""]), "merges: expected two tokens with a space between them as element 0"),
        (merges(&[b"a "]), "merges: expected two tokens with a space between them as element 0"),
        (merges(&[b" "]), "merges: expected two tokens with a space between them as element 0"),
        (merges(&[b"\xff b"]), "merges: expected UTF-8 as element 0"),
    ];
    for (writer, says) in cases {
        let error = build(writer.finish()).unwrap_err();
        assert!(matches!(error, TokenizerError::Gguf(_)), "{error:?}");
        assert!(
            error.to_string().starts_with("toy.gguf: ") && error.to_string().contains(says),
            "{error}\n{says}"
        );
    }
    assert!(build(merges(&[b"a b"]).finish()).is_ok() && build(id("bos", 1).finish()).is_ok());
}

#[test]
fn texts_that_have_no_tokens_are_errors() {
    let bytes = build(merges(&[b"a b"]).finish()).unwrap();
    assert_eq!(bytes.encode("abba", PLAIN).unwrap(), [2, 1, 0]);
    // Byte-level vocabularies leave out what they have no token for.
    assert_eq!(bytes.encode("abcéb", PLAIN).unwrap(), [2, 1]);
    let pieces = file("llama").kv_strs(TOKENS, ["", "a", "\u{2581}"]).kv_f32s(SCORES, &[0.0; 3]);
    let error = build(pieces.finish()).unwrap().encode("aé", PLAIN).unwrap_err();
    assert_eq!(error.to_string(), "the vocabulary has no token for the character 'é'");
    let known = file("llama").kv_strs(TOKENS, ["<unk>", "a", "\u{2581}"]).kv_i32s(TYPES, &[2, 1, 1]);
    let known = known.kv_f32s(SCORES, &[0.0; 3]);
    assert_eq!(build(known.finish()).unwrap().encode("aéüa", PLAIN).unwrap(), [2, 1, 0, 1]);
}

/// Merges never make a control token of text, nor do names of bytes become bytes.
#[test]
fn text_does_not_become_control_tokens_by_merging() {
    let mut toy = Toy::bytes().token("ab", kind::CONTROL).pre("gpt-2");
    toy.merges.push("a b".to_owned());
    assert_eq!(toy.build().encode("ab", PLAIN).unwrap(), [97, 98]);
    assert_eq!(toy.build().encode("ab", SPECIAL).unwrap(), [256]);
    let mut toy = Toy::pieces();
    for text in ["<", "s", ">", "<s", "0", "x", "4", "1", "<0", "<0x", "<0x4", "<0x41", "s>"] {
        toy = toy.piece(text, -2.0);
    }
    let tokenizer = toy.build();
    for text in ["<s>", "<0x41>"] {
        let ids = tokenizer.encode(text, PLAIN).unwrap();
        assert!(!ids.contains(&toy.id(text)), "{text} {ids:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    }
}

/// Whatever the arrays hold, there is an error or a tokenizer, and no panic.
#[test]
fn random_vocabularies_do_not_panic() {
    let mut rng = Rng::new(1);
    let texts =
        ["", " ", "a", "b", "ab", "aa", "Ġ", "\u{2581}", "<0x41>", "</s>", "<|im_end|>", "é", "\u{2581}a"];
    let mut built = 0;
    for _ in 0..3000 {
        let count = rng.below(8);
        let near = |rng: &mut Rng| (count + rng.below(2)).saturating_sub(usize::from(rng.below(8) == 0));
        let start = rng.below(texts.len());
        let mut tokens: Vec<&str> = (0..count).map(|i| texts[(start + i) % texts.len()]).collect();
        if rng.below(8) == 0 {
            tokens.extend(tokens.first().copied());
        }
        let mut pick = || texts[rng.below(texts.len())];
        let pairs: Vec<String> = (0..count / 2).map(|_| format!("{} {}", pick(), pick())).collect();
        let kinds: Vec<i32> = (0..near(&mut rng)).map(|_| rng.below(7) as i32).collect();
        let scores: Vec<f32> =
            (0..near(&mut rng)).map(|_| rng.pick(&[0.0, -1.0, f32::INFINITY, -2.0])).collect();
        let writer = file(rng.pick(&["gpt2", "llama"])).kv_strs(TOKENS, tokens).kv_strs(MERGES, pairs);
        let writer = writer.kv_i32s(TYPES, &kinds).kv_f32s(SCORES, &scores);
        let role = rng.pick(&["bos", "eos", "unknown", "eom"]);
        let writer = writer.kv_u32(&format!("tokenizer.ggml.{role}_token_id"), rng.below(9) as u32);
        let Ok(tokenizer) = build(writer.finish()) else { continue };
        built += 1;
        for text in ["", "a b", "aab</s> <|im_end|>é", "  "] {
            for options in [PLAIN, SPECIAL] {
                if let Ok(ids) = tokenizer.encode(text, options) {
                    tokenizer.decode(&ids).unwrap();
                }
            }
        }
    }
    assert!(built > 100, "{built}");
}
