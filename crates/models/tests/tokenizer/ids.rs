//! Ids of other implementations.

use cera_models::gguf::{GgufFile, LoadMode};
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerOptions};
use cera_testkit::fixtures;
use serde::Deserialize;

use crate::support::{PLAIN, SPECIAL, open};

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
}

/// A text of the corpus with llama.cpp's ids.
#[derive(Deserialize)]
struct CorpusCase {
    text: String,
    smollm2: Vec<u32>,
    gemma3: Vec<u32>,
}

fn json<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    serde_json::from_slice(&fixtures::bytes(name)).unwrap()
}

/// Checks the ids, and reports every text that differs.
fn check<'c>(
    name: &str,
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    cases: impl Iterator<Item = (&'c str, &'c [u32])>,
) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (text, ids) in cases {
        count += 1;
        let got = tokenizer.encode(text, options).unwrap();
        if got != ids {
            wrong.push(format!("{text:?}: {got:?}, expected {ids:?}"));
        }
    }
    assert!(count > 0 && wrong.is_empty(), "{name}: {} of {count}\n{}", wrong.len(), wrong.join("\n"));
}

fn check_file(vocabulary: &str, expected: &str, options: EncodeOptions) {
    let cases: Vec<Case> = json(expected);
    check(expected, &open(vocabulary), options, cases.iter().map(|case| (&*case.text, &*case.ids)));
}

#[test]
fn vocabularies_give_the_ids_of_the_original_tokenizers() {
    for name in ["gpt-2", "llama-bpe", "llama-spm", "qwen2"] {
        check_file(&format!("tokenizers/{name}.gguf.gz"), &format!("tokenizers/{name}.json"), PLAIN);
    }
}

#[test]
fn models_of_every_architecture_give_the_ids_of_transformers() {
    let folders = std::fs::read_dir(fixtures::dir().join("arch")).unwrap();
    let mut count = 0;
    for folder in folders {
        let name = folder.unwrap().file_name().into_string().unwrap();
        let of = |file: &str| format!("arch/{name}/{file}");
        check_file(&of("model.gguf"), &of("tokenize.json"), SPECIAL);
        count += 1;
    }
    assert_eq!(count, 19);
}

/// Accents composed and not, scripts with and without spaces, emoji with joiners, code, digits, runs of white space, CRLF.
#[test]
fn smollm2_gives_the_ids_of_llama_cpp() {
    let cases: Vec<CorpusCase> = json("tokenizers/corpus.json");
    let tokenizer = open("tokenizers/smollm2.gguf.gz");
    check("corpus", &tokenizer, PLAIN, cases.iter().map(|case| (&*case.text, &*case.smollm2)));
}

/// As for SmolLM2. The vocabulary may not be copied: `CERA_TEST_GEMMA3` has the path of a Gemma 3 GGUF file.
#[test]
#[ignore = "needs a model of 250 MB: cargo xtask test --full"]
fn gemma3_gives_the_ids_of_llama_cpp() {
    let path = std::env::var_os("CERA_TEST_GEMMA3").expect("cargo xtask model gemma3 fetches the model");
    let file = GgufFile::open(path, LoadMode::Map).unwrap();
    let tokenizer = Tokenizer::from_gguf(file.meta(), &TokenizerOptions::default()).unwrap();
    let cases: Vec<CorpusCase> = json("tokenizers/corpus.json");
    check("corpus", &tokenizer, PLAIN, cases.iter().map(|case| (&*case.text, &*case.gemma3)));
    assert_eq!(tokenizer.stop_tokens(), [1, 106]);
}
