//! The alphabet of byte-level vocabularies: every byte has a printable character that stands for it.
//!
//! The bytes `!` to `~`, `0xA1` to `0xAC` and `0xAE` to `0xFF` are the characters of the same number. The other 68 are, in
//! order, the characters from U+0100 on.

use std::sync::LazyLock;

/// The number of characters past U+00FF that stand for bytes.
const SHIFTED: u32 = 68;

fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

static CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut shifted = (0x100..).filter_map(char::from_u32);
    std::array::from_fn(|i| {
        let byte = i as u8;
        if is_itself(byte) { char::from(byte) } else { shifted.next().unwrap_or_default() }
    })
});

static SHIFTED_BYTES: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..=u8::MAX).filter(|&byte| !is_itself(byte)).collect());

/// The character that stands for `byte`.
pub(super) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that `c` stands for, if it is of the alphabet.
pub(super) fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ 0..=0xFF => u8::try_from(code).ok().filter(|&byte| is_itself(byte)),
        code => SHIFTED_BYTES.get((code - 0x100).min(SHIFTED) as usize).copied(),
    }
}

/// Appends the characters that stand for `bytes`.
pub(super) fn push_encoded(out: &mut String, bytes: &[u8]) {
    out.extend(bytes.iter().map(|&byte| char_of(byte)));
}

/// The bytes that `text` stands for, if all of it is of the alphabet.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character_and_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!((char_of(b' '), char_of(b'\n'), char_of(0xAD)), ('Ġ', 'Ċ', '\u{143}'));
        for none in [' ', '\u{7f}', '\u{ad}', '\u{144}', '\u{10FFFF}'] {
            assert_eq!(byte_of(none), None, "{none:?}");
        }
    }
}
