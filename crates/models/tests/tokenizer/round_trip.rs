//! What is left of a text that was encoded and decoded.

use cera_models::tokenizer::Tokenizer;
use cera_testkit::rng::Rng;

use crate::support::{PLAIN, Toy, byte_char, open};

/// Parts of texts, besides random characters.
const PARTS: &[&str] = &[
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\n\n",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "\u{200d}",
    "\u{fe0f}",
    "e\u{301}",
    "é",
    "ß",
    "中",
    "文字",
    "ひらがな",
    "한국",
    "ไทย",
    "กำ",
    "العربية",
    "हिन्दी",
    "क्षि",
    "Привет",
    "😀",
    "👨‍👩‍👧",
    "🇩🇪",
    "½",
    "٣",
    "Ⅷ",
    "'s",
    "'LL",
    "the",
    " and",
    "def ",
    "()",
    "{}",
    "12345",
    "aaaa",
    "<|im_end|>",
    "</s>",
    "<s>",
    "<unk>",
    "<0x41>",
    "\0",
    "\u{feff}",
    "\u{ffff}",
];

fn random_text(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(24) {
        match rng.below(8) {
            0 => text.extend(char::from_u32(rng.below(0x11_0000) as u32)),
            1 => text.extend(char::from_u32(rng.below(0x3000) as u32)),
            2 | 3 => text.push(char::from(32 + rng.below(95) as u8)),
            _ => text.push_str(rng.pick(PARTS)),
        }
    }
    text
}

fn check(name: &str, tokenizer: &Tokenizer, texts: usize, normal_form: impl Fn(&str) -> String) {
    let mut rng = Rng::new(68);
    for i in 0..texts {
        let text = random_text(&mut rng);
        let ids = tokenizer.encode(&text, PLAIN).unwrap();
        assert!(ids.iter().all(|&id| !tokenizer.is_control(id)), "{name} {i}: {text:?} {ids:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), normal_form(&text), "{name} {i}: {ids:?}");
    }
}

/// The normal form of byte-level vocabularies: without the bytes that have no token.
#[test]
fn ten_thousand_random_texts_come_back_byte_level() {
    for (name, lacks) in [("smollm2", 21), ("gpt-2", 0), ("qwen2", 0), ("llama-bpe", 0)] {
        let tokenizer = open(&format!("tokenizers/{name}.gguf.gz"));
        let has = |byte: u8| tokenizer.token(&byte_char(byte).to_string()).is_some();
        let missing: Vec<u8> = (0..=255).filter(|&byte| !has(byte)).collect();
        assert_eq!(missing.len(), lacks, "{name}");
        check(name, &tokenizer, 10_000, |text| {
            let bytes: Vec<u8> = text.bytes().filter(|byte| !missing.contains(byte)).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        });
    }
}

/// The normal form of SentencePiece: the character that stands for a space is one.
#[test]
fn ten_thousand_random_texts_come_back_sentence_piece() {
    let normal_form = |text: &str| text.replace('\u{2581}', " ");
    check("llama-spm", &open("tokenizers/llama-spm.gguf.gz"), 10_000, normal_form);
    let without_prefix = Toy::pieces().key(|file| file.kv_bool("tokenizer.ggml.add_space_prefix", false));
    check("toy", &without_prefix.build(), 10_000, normal_form);
}

/// The models of some pre-tokenizers were trained on composed characters.
#[test]
fn normalization_is_that_of_the_pre_tokenizer() {
    for (pre, composes) in [("command-r", true), ("olmo", true), ("qwen2", false), ("smollm", false)] {
        let tokenizer = Toy::bytes().pre(pre).build();
        let ids = |text| tokenizer.encode(text, PLAIN).unwrap();
        assert_eq!(ids("e\u{301}") == ids("é"), composes, "{pre}");
        let text = tokenizer.decode(&ids("A\u{30a}e\u{301}\u{302}")).unwrap();
        assert_eq!(text, if composes { "Åé\u{302}" } else { "A\u{30a}e\u{301}\u{302}" }, "{pre}");
    }
}
