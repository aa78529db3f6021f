//! Exit codes and streams, apart from what models say.

use cera_quant::Format::F32;
use cera_testkit::toy::{Shape, Toy};

use crate::program::{Folder, Run, cera, fixture, logits, logits_failure, run};

const MODEL: &str = "arch/llama/model.gguf";

#[test]
fn help_and_version_are_no_failures() {
    for arg in ["--help", "--version", "help"] {
        assert!(!run(&[&arg]).success().is_empty(), "{arg}");
    }
    for command in ["chat", "completions", "logits", "inspect", "perplexity", "run", "tiers", "tokenize"] {
        assert!(run(&[&command, &"--help"]).success().contains("Usage: cera"), "{command}");
    }
    assert_eq!(run(&[&"--version"]).success(), format!("cera {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_arguments_end_with_exit_code_2() {
    let lines = [
        "",
        "no-such-command",
        "--no-such-flag",
        "tiers file",
        "tiers --no-such-flag",
        "inspect",
        "inspect a b",
        "inspect a --no-such-flag",
        "logits",
        "logits -m a -o b",
        "logits --tokens 1 -o b",
        "logits -m a --tokens 1",
        "logits -m a --tokens -o b",
        "logits -m a --tokens= -o b",
        "logits -m a --tokens 1,,2 -o b",
        "logits -m a --tokens one -o b",
        "logits -m a --tokens -1 -o b",
        "logits -m a --tokens 4294967296 -o b",
        "logits -m a --tokens 1 -o b --kv q4_0",
        "logits -m a --tokens 1 -o b --chunk 0",
        "logits -m a --tokens 1 -o b --chunk -1",
        "logits -m a -m b --tokens 1 -o c",
        "perplexity -m a",
        "perplexity -f a",
        "perplexity -m a -f b --ctx none",
        "perplexity -m a -f b --chunks 0",
        "perplexity -m a -f b -t 0",
        "run -m a -p b -n 0",
        "run -m a -p b -c 0",
        "run -m a -p b -f c",
        "chat -m a -n 0",
        "completions",
        "completions no-such-shell",
        "tokenize",
        "tokenize a",
        "tokenize -m a b c",
        "tokenize -m a b --file c",
        "tokenize -m a --decode 1 b",
        "tokenize -m a --decode 1 --no-bos",
        "tokenize -m a --decode one",
        "tokenize -m a --decode -1",
        "tokenize -m a --decode 1,,2",
    ];
    for line in lines {
        let message = Run::of(cera().args(line.split_whitespace())).wrong_usage();
        assert!(message.contains("Usage: cera") || message.contains("--help"), "{line:?}: {message}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new();
    let (missing, empty) = (folder.path("none.gguf"), folder.write("empty.gguf", b""));
    let here = folder.path(".");
    for (path, says) in [
        (&missing, "No such file"),
        (&here, "expected a regular file"),
        (&empty, "not a GGUF file: expected it to begin with \"GGUF\", found an empty file"),
    ] {
        let messages = [run(&[&"inspect", path]).failure(), logits_failure(path, &[1], &[])];
        for message in messages {
            assert!(message.starts_with(&path.display().to_string()) && message.contains(says), "{message}");
        }
    }
}

#[test]
fn a_token_outside_of_the_vocabulary_is_named_with_its_size() {
    for token in [384, u32::MAX] {
        let message = logits_failure(&fixture(MODEL), &[1, token, 2], &[]);
        assert_eq!(message, format!("token {token} is outside of the vocabulary of 384"));
    }
    assert_eq!(logits(&fixture(MODEL), &[383], &[]).rows, 1);
}

#[test]
fn tokens_past_the_context_are_refused_with_the_counts() {
    let folder = Folder::new();
    let model = folder.write("toy.gguf", Toy::new(Shape { context: 8, ..Shape::SMALL }, |_| F32).finish());
    assert_eq!(logits(&model, &[1; 8], &[]).rows, 8);
    for more in [&[][..], &["--chunk", "1"], &["--last"]] {
        let message = logits_failure(&model, &[1; 9], more);
        assert_eq!(message, "the context is full: 0 positions held and 9 to add, of at most 8");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_named_once() {
    let folder = Folder::new();
    let model = fixture(MODEL);
    let logits = |output| run(&[&"logits", &"-m", &model, &"--tokens", &"1", &"-o", output]).failure();
    let (nowhere, directory) = (folder.path("no/such/folder/out"), folder.path("."));
    for (path, says) in [(&nowhere, "No such file or directory"), (&directory, "Is a directory")] {
        let message = logits(path);
        let expected = format!("cannot write {}: {says}", path.display());
        assert!(message.starts_with(&expected) && message.matches(says).count() == 1, "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let (model, full) = (fixture(MODEL), std::path::Path::new("/dev/full"));
    let message = run(&[&"logits", &"-m", &model, &"--tokens", &"1", &"-o", &full]).failure();
    assert!(message.starts_with("cannot write /dev/full: No space left on device"), "{message}");
    let out = std::fs::OpenOptions::new().write(true).open(full).unwrap();
    let message = Run::of(cera().arg("inspect").arg(&model).stdout(out)).failure();
    assert!(message.starts_with("cannot write to standard output: No space left on device"), "{message}");
}

#[cfg(unix)]
#[test]
fn an_output_that_is_a_link_stays_one() {
    let folder = Folder::new();
    let (target, link) = (folder.write("target", b"before"), folder.path("link"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let model = fixture(MODEL);
    run(&[&"logits", &"-m", &model, &"--tokens", &"1", &"-o", &link]).success();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(target.metadata().unwrap().len() > 4 * 384);
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    let model = fixture(MODEL);
    for args in [&["tiers"][..], &["tiers", "--json"], &["inspect", model.to_str().unwrap()]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::of(cera().args(args).stdout(writer));
        assert!(run.code == Some(0) && run.stderr.is_empty(), "{args:?}: {run:?}");
    }
}
