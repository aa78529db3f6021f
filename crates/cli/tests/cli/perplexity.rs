//! `cera perplexity`: what it prints and what it refuses.

use crate::program::{Folder, Run, cera, fixture, json};

const MODEL: &str = "arch/llama/model.gguf";

/// The command on a text.
fn perplexity(folder: &Folder, text: impl AsRef<[u8]>, args: &[&str]) -> std::process::Command {
    let mut command = cera();
    command.arg("perplexity").arg("-m").arg(fixture(MODEL)).arg("-f").arg(folder.write("text", text));
    command.args(args);
    command
}

fn text() -> String {
    "And the earth was without form, and void; and darkness was upon the face of the deep.\n".repeat(12)
}

#[test]
fn a_result_is_a_line_or_a_json_object_and_a_pipe_sees_no_progress() {
    let folder = Folder::new();
    let args = ["-c", "32", "-t", "2", "--kv", "f32"];
    let json = json(&mut perplexity(&folder, text(), &args));
    let number = |name: &str| json[name].as_f64().unwrap();
    let chunks = number("chunks");
    assert!(chunks >= 2.0 && number("tokens_scored") == 15.0 * chunks, "{json}");
    assert!(number("perplexity") > 1.0 && number("standard_error") > 0.0, "{json}");
    assert_eq!((&json["kv"], &json["ctx"], &json["threads"]), (&"f32".into(), &32.into(), &2.into()));
    let running = json["running"].as_array().unwrap();
    assert_eq!(running.len() as f64, chunks);
    assert_eq!(running.last(), Some(&json["perplexity"]));

    let line = Run::of(&mut perplexity(&folder, text(), &args)).success();
    let begin = format!(
        "perplexity {:.4} ± {:.4} ({chunks} chunks of 32 tokens, {} tokens scored, ",
        number("perplexity"),
        number("standard_error"),
        json["tokens_scored"]
    );
    assert!(line.starts_with(&begin) && line.lines().count() == 1, "{line}");
}

#[test]
fn threads_and_packing_change_nothing_and_chunks_end_early() {
    let folder = Folder::new();
    let running = |args: &[&str]| json(&mut perplexity(&folder, text(), args))["running"].clone();
    let all = running(&["--ctx", "16", "-t", "1"]);
    assert_eq!(running(&["--ctx", "16", "-t", "3", "--no-repack"]), all);
    let two = running(&["--ctx", "16", "--chunks", "2"]);
    assert_eq!(two.as_array().unwrap()[..], all.as_array().unwrap()[..2]);
}

#[test]
fn what_has_no_perplexity_is_refused() {
    let folder = Folder::new();
    let failure = |text: &[u8], args: &[&str]| Run::of(&mut perplexity(&folder, text, args)).failure();
    let message = failure(b"short", &[]);
    assert!(
        message.starts_with("the text has ") && message.ends_with("at least 1024 are needed"),
        "{message}"
    );
    let message = failure(text().as_bytes(), &["--ctx", "2"]);
    assert!(message.starts_with("a context of 2 tokens, expected 3 to "), "{message}");
    let message = failure(b"\xff", &[]);
    assert!(message.contains("text is not UTF-8"), "{message}");
    let mut command = cera();
    command.arg("perplexity").arg("-m").arg(fixture(MODEL)).arg("-f").arg(folder.path("none"));
    let message = Run::of(&mut command).failure();
    assert!(message.starts_with("cannot read ") && message.contains("No such file"), "{message}");
}
