//! Writing to standard output and standard error.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use cera_models::gguf::is_control;
use serde::Serialize;

/// Writes to standard output; control characters, as untrusted names may have, become escapes, which JSON reads back. A
/// reader that has gone away is no error: it has read enough.
pub(crate) fn print(text: &str) -> Result<()> {
    let text = escape(text);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes text of a model to standard output at once, as it is; on a terminal U+FFFD stands for the control characters
/// that would steer it. `false` if the reader has gone away.
#[must_use = "nobody reads any more if it is false"]
pub(crate) fn stream(text: &str) -> Result<bool> {
    let steers = |c: char| is_control(c) && !matches!(c, '\n' | '\t' | '\r');
    let mut out = std::io::stdout().lock();
    let text = if out.is_terminal() { Cow::Owned(text.replace(steers, "\u{fffd}")) } else { text.into() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write to standard output"),
    }
}

/// Writes a line to standard error.
pub(crate) fn notice(line: &str) {
    // Nothing is left to be done if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{}", escape(line));
}

/// Writes a value as indented JSON to standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Writes an error with its causes on one line to standard error.
pub(crate) fn error(error: &anyhow::Error) {
    let line = format!("error: {error:#}").replace(['\n', '\r'], " ");
    // Nothing is left to be done if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{}", escape(&line));
}

/// The text with every control character but the end of a line as an escape of four hexadecimal digits.
fn escape(text: &str) -> Cow<'_, str> {
    let is_raw = |c: char| c == '\n' || !is_control(c);
    if text.chars().all(is_raw) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_raw(c) {
            true => escaped.push(c),
            false => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    escaped.into()
}

/// Rows of cells in columns, two spaces apart, each as wide as its widest cell. Columns in `right` are flush right.
pub(crate) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| match right.contains(&c) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let line: Vec<String> = cells.collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_that_json_reads() {
        assert!(matches!(escape("caf\u{e9}\n\u{4e2d}"), Cow::Borrowed(_)));
        let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{61c}\u{7f}\t\u{2028}";
        let escaped = escape(hostile);
        assert_eq!(escaped, "a\\u001b[2J\\u009b31m\\u202eb\\u2066\\u200f\\u061c\\u007f\\u0009\\u2028");
        assert_eq!(serde_json::from_str::<String>(&format!("\"{escaped}\"")).unwrap(), hostile);
    }

    #[test]
    fn columns_are_aligned() {
        let rows =
            [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "23".to_owned(), "x".to_owned()]];
        assert_eq!(table(&rows, &[1]), "a     1\nbcd  23  x\n");
        assert_eq!(table(&[], &[]), "");
    }
}
