//! Which pre-tokenizer splits a text, and what says so.

use std::io::Write;
use std::sync::{Arc, Mutex};

use cera_models::tokenizer::{Tokenizer, TokenizerError, TokenizerOptions};

use crate::support::{PLAIN, Toy, build_with, pieces};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What `work` gives, and the lines that it logs.
fn logged<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let result = tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (result, text.lines().map(str::to_owned).collect())
}

/// A vocabulary whose ids show where words end.
fn toy() -> Toy {
    let merges =
        [("1", "2"), ("12", "3"), ("4", "5"), ("123", "45"), (" ", "12345"), ("'", "s"), ("\n", "\n")];
    merges.into_iter().fold(Toy::bytes(), |toy, (left, right)| toy.merge(left, right))
}

fn words(tokenizer: &Tokenizer) -> Vec<String> {
    let pieces = pieces(tokenizer, &tokenizer.encode("it's 12345 cafe\n\n", PLAIN).unwrap());
    // Words without merges are single bytes, which say nothing.
    pieces.into_iter().filter(|piece| piece.len() > 1 || piece.trim().parse::<u8>().is_ok()).collect()
}

/// Case 49: a known name is the exact pre-tokenizer; a missing or unknown one is a warning and the documented fallback, or
/// an error.
#[test]
fn case_49_pre_tokenizer_by_name() {
    let strict = TokenizerOptions { strict: true, ..options(None) };
    let default = ["123", "45", "\n\n"];
    let known: [(&str, &[&str]); 6] = [
        ("default", &default),
        ("llama-bpe", &["'s", "123", "45", "\n\n"]),
        ("qwen2", &["'s", "1", "2", "3", "4", "5", "\n\n"]),
        ("gpt-2", &["'s", " 12345", "\n\n"]),
        ("smollm", &["'s", "1", "2", "3", "4", "5", "\n\n"]),
        ("deepseek-v3", &["'s", "123", "45", "\n\n"]),
    ];
    for (name, expected) in known {
        let file = toy().pre(name).file();
        let (tokenizer, log) = logged(|| build_with(file, &strict).unwrap());
        assert_eq!((words(&tokenizer), log), (strings(expected), vec![]), "{name}");
    }
    for (file, says) in [
        (toy().file(), "metadata key tokenizer.ggml.pre is missing"),
        (toy().pre("made-up").file(), "metadata key tokenizer.ggml.pre: expected one of default, "),
    ] {
        let (tokenizer, log) = logged(|| build_with(file.clone(), &options(None)).unwrap());
        assert_eq!(words(&tokenizer), default);
        assert!(log.len() == 1 && log[0].contains("WARN") && log[0].contains(says), "{log:?}");
        assert!(log[0].contains("texts are split as by default"), "{log:?}");
        let error = build_with(file.clone(), &strict).unwrap_err();
        assert!(matches!(&error, TokenizerError::Gguf(_)) && error.to_string().contains(says), "{error}");
        let (tokenizer, log) = logged(|| build_with(file, &options(Some("qwen2"))).unwrap());
        assert_eq!((words(&tokenizer), log), (strings(known[2].1), vec![]));
    }
}

#[test]
fn an_override_that_is_not_known_is_an_error() {
    let error = build_with(toy().pre("qwen2").file(), &options(Some("made-up"))).unwrap_err();
    assert!(matches!(&error, TokenizerError::UnknownPre { name, .. } if name == "made-up"), "{error}");
}

/// A word that is a token is one, where the models of the pre-tokenizer were trained so.
#[test]
fn merges_are_ignored_where_the_models_ignore_them() {
    for (pre, expected) in [("llama-bpe", vec!["xyz"]), ("qwen2", vec!["x", "y", "z"])] {
        let tokenizer = Toy::bytes().token("xyz", crate::support::kind::NORMAL).pre(pre).build();
        assert_eq!(pieces(&tokenizer, &tokenizer.encode("xyz", PLAIN).unwrap()), expected, "{pre}");
    }
}

fn options(pre: Option<&str>) -> TokenizerOptions {
    TokenizerOptions { strict: false, pre: pre.map(str::to_owned) }
}

fn strings(of: &[&str]) -> Vec<String> {
    of.iter().map(|&text| text.to_owned()).collect()
}

/// The pieces of `text` by applying the merges one after another, each from the left.
fn merged(text: &str, merges: &[(&str, &str)]) -> Vec<String> {
    let mut pieces: Vec<String> = text.chars().map(String::from).collect();
    for (left, right) in merges {
        let mut next: Vec<String> = Vec::new();
        for piece in pieces {
            match next.last_mut() {
                Some(last) if last == left && piece == *right => last.push_str(&piece),
                _ => next.push(piece),
            }
        }
        pieces = next;
    }
    pieces
}

/// Long words have the tokens that their merges make, wherever they could be cut.
#[test]
fn long_words_are_merged_throughout() {
    let merges = [("b", "a"), ("ba", "ba"), ("c", "c")];
    let toy = merges.into_iter().fold(Toy::bytes(), |toy, (left, right)| toy.merge(left, right));
    let tokenizer = toy.pre("gpt-2").build();
    for part in ["ab", "ba", "aab", "abc", "c", "bacc", "bbaac"] {
        for count in [1, 31, 43, 63, 64, 65, 127, 128, 129, 500] {
            let text = part.repeat(count);
            let ids = tokenizer.encode(&text, PLAIN).unwrap();
            assert_eq!(pieces(&tokenizer, &ids), merged(&text, &merges), "{part} {count}");
        }
    }
}
