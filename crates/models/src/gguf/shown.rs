//! Names of an untrusted file, made fit for one line of an error message.

use std::fmt::Write as _;
use std::path::Path;

/// The most characters that a message shows of a name or string.
const MAX_SHOWN: usize = 80;

/// `text` with control characters escaped, cut to a length that fits a message.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == MAX_SHOWN {
            out.push_str("...");
            break;
        }
        push_escaped(&mut out, c);
    }
    out
}

/// As [`shown`], in double quotes, for bytes that may not be UTF-8.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(4 * MAX_SHOWN + 4)];
    let mut text = shown(&String::from_utf8_lossy(head));
    text.insert(0, '"');
    text.push('"');
    text
}

/// A path in full, with control characters escaped.
pub(super) fn shown_path(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        push_escaped(&mut out, c);
    }
    out
}

/// Whether a character shows nothing and may change how a terminal shows what follows: controls of both sets, separators
/// of lines, and marks of the direction of text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(out: &mut String, c: char) {
    if is_control(c) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", c.escape_default());
    } else {
        out.push(c);
    }
}
