//! `cera tokenize`, against the stored ids.

use std::io::Write;
use std::process::Stdio;

use cera_testkit::gguf::GgufWriter;

use crate::program::{Folder, Run, cera, fixture, run};

const MODEL: &str = "arch/llama/model.gguf";
const BOS: u32 = 378;

/// Texts and their ids: no BOS, control tokens parsed.
fn cases() -> Vec<(String, Vec<u32>)> {
    let json = cera_testkit::fixtures::bytes("arch/llama/tokenize.json");
    let cases: Vec<serde_json::Value> = serde_json::from_slice(&json).unwrap();
    let ids = |case: &serde_json::Value| serde_json::from_value(case["ids"].clone()).unwrap();
    cases.iter().map(|case| (case["text"].as_str().unwrap().to_owned(), ids(case))).collect()
}

fn ids(stdout: &str) -> Vec<u32> {
    assert!(stdout.ends_with("]\n") && stdout.lines().count() == 1, "{stdout:?}");
    serde_json::from_str(stdout).unwrap()
}

/// What the program prints for standard input.
fn piped(args: &[&str], input: &[u8]) -> Run {
    let model = fixture(MODEL);
    let mut command = cera();
    command.arg("tokenize").arg("-m").arg(model).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that has failed reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_text_an_argument_a_file_and_standard_input_give_the_stored_ids() {
    let (folder, model) = (Folder::new(), fixture(MODEL));
    for (text, expected) in cases() {
        let more: &[&str] = &["--parse-special", "--no-bos"];
        let file = folder.write("text", &text);
        let of_file = run(&[&"tokenize", &"-m", &model, &"--file", &file, &more[0], &more[1]]).success();
        let of_argument = run(&[&"tokenize", &"-m", &model, &more[0], &more[1], &"--", &text]).success();
        let of_input = piped(more, text.as_bytes()).success();
        assert_eq!([of_file, of_argument, of_input].map(|out| ids(&out)), [(); 3].map(|()| expected.clone()));
    }
}

#[test]
fn bos_and_control_tokens_are_as_asked_for() {
    let of = |args: &[&str], text: &str| ids(&piped(args, text.as_bytes()).success());
    let plain = of(&["--no-bos"], "a");
    assert_eq!(of(&[], "a"), [&[BOS], &plain[..]].concat());
    assert_eq!(of(&[], ""), [BOS]);
    let model = cera_models::gguf::GgufFile::open(fixture(MODEL), cera_models::gguf::LoadMode::Read).unwrap();
    let name = model.meta().strings("tokenizer.ggml.tokens").unwrap().get(BOS as usize).unwrap();
    let name = std::str::from_utf8(name).unwrap();
    assert_eq!(of(&["--parse-special"], name), [BOS]);
    let split = of(&["--no-bos"], name);
    assert!(split.len() > 1 && !split.contains(&BOS), "{split:?}");
}

#[test]
fn ids_give_the_text_back() {
    let model = fixture(MODEL);
    for (text, expected) in cases() {
        let list: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(run(&[&"tokenize", &"-m", &model, &"--decode", &list.join(",")]).success(), text);
    }
    let message = run(&[&"tokenize", &"-m", &model, &"--decode", &"1,384"]).failure();
    assert_eq!(message, "token 384 is outside of the vocabulary of 384");
}

#[test]
fn what_cannot_be_tokenized_is_named() {
    let (folder, model) = (Folder::new(), fixture(MODEL));
    let missing = folder.path("none");
    let message = run(&[&"tokenize", &"-m", &model, &"--file", &missing]).failure();
    assert!(message.starts_with(&format!("cannot read {}: ", missing.display())), "{message}");
    let binary = folder.write("binary", b"a\xff");
    let message = run(&[&"tokenize", &"-m", &model, &"--file", &binary]).failure();
    assert!(message.starts_with(&format!("{} is not UTF-8", binary.display())), "{message}");
    assert!(piped(&[], b"\xff").failure().starts_with("standard input is not UTF-8"));
    let message = run(&[&"tokenize", &"-m", &model, &"--pre", &"made-up", &"a"]).failure();
    assert!(message.starts_with("pre-tokenizer made-up is not known; known: default, "), "{message}");
}

#[test]
fn an_unknown_pre_tokenizer_is_a_warning_or_an_error() {
    let folder = Folder::new();
    let file =
        GgufWriter::new().kv_str("tokenizer.ggml.model", "gpt2").kv_str("tokenizer.ggml.pre", "made-up");
    let file = file.kv_strs("tokenizer.ggml.tokens", ["a"]).kv_strs::<&str>("tokenizer.ggml.merges", []);
    let path = folder.write("made-up.gguf", file.finish());
    let warned = Run::of(cera().arg("tokenize").arg("-m").arg(&path).arg("aa").env("CERA_LOG", "warn"));
    assert!(warned.code == Some(0) && warned.stdout == "[0,0]\n", "{warned:?}");
    assert!(
        warned.stderr.contains("WARN") && warned.stderr.contains("found string \"made-up\""),
        "{warned:?}"
    );
    let message = run(&[&"tokenize", &"-m", &path, &"--strict", &"aa"]).failure();
    assert!(message.contains("metadata key tokenizer.ggml.pre: expected one of default, "), "{message}");
    assert_eq!(
        run(&[&"tokenize", &"-m", &path, &"--strict", &"--pre", &"gpt-2", &"aa"]).success(),
        "[0,0]\n"
    );
}
