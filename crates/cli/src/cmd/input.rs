//! Text that a command is given.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

/// The text given as an argument, else the one in `file`, else that of standard input.
pub(crate) fn text(argument: Option<&str>, file: Option<&Path>) -> Result<String> {
    match (argument, file) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(path)) => file_text(path),
        (None, None) => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            utf8("standard input", read.map(|_| bytes))
        }
    }
}

/// The text in a file.
pub(crate) fn file_text(path: &Path) -> Result<String> {
    utf8(&path.display().to_string(), std::fs::read(path))
}

fn utf8(name: &str, bytes: std::io::Result<Vec<u8>>) -> Result<String> {
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))
}
