//! A bounded reader over the bytes of a file.

use std::fmt::Display;

use super::Fault;

/// A position in the bytes of a file. It never moves past the end.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Bytes of the whole file, of which `bytes` may be the beginning only.
    file_len: usize,
    at: usize,
    wanted: Option<usize>,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first byte of a file of `file_len` bytes, of which `bytes` is the beginning or all.
    pub(super) fn new(bytes: &'a [u8], file_len: usize) -> Cursor<'a> {
        Cursor { bytes, file_len: file_len.max(bytes.len()), at: 0, wanted: None }
    }

    /// How many bytes of the file are needed, if reading failed because the given ones are not enough.
    pub(super) fn wanted(&self) -> Option<usize> {
        self.wanted
    }

    /// Bytes of the whole file.
    pub(super) fn file_len(&self) -> usize {
        self.file_len
    }

    /// Bytes before the cursor.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Bytes up to the end of the file.
    pub(super) fn left(&self) -> usize {
        self.file_len - self.at
    }

    /// The next `n` bytes, which are `what`.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if fewer are left; if the file has them but they are not given, [`Cursor::wanted`] says so.
    pub(super) fn take(&mut self, n: u64, what: &dyn Display) -> Result<&'a [u8], Fault> {
        let left = self.left();
        let end = usize::try_from(n).ok().filter(|&n| n <= left).map(|n| self.at + n);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let Some(taken) = taken else { return Err(self.cut(self.at, n, what)) };
        self.at += taken.len();
        Ok(taken)
    }

    /// Moves over `n` length-prefixed strings of `what`. A vocabulary has several hundred thousand: the position stays
    /// in a register, and errors are made apart.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub(super) fn skip_strings(&mut self, n: usize, what: &dyn Display) -> Result<(), Fault> {
        let mut rest = &self.bytes[self.at..];
        for _ in 0..n {
            match after_string(rest) {
                Some(after) => rest = after,
                None => return Err(self.cut_string(self.bytes.len() - rest.len(), what)),
            }
        }
        self.at = self.bytes.len() - rest.len();
        Ok(())
    }

    /// What is wrong with the string at `at` that the file is too short for.
    #[cold]
    fn cut_string(&mut self, at: usize, what: &dyn Display) -> Fault {
        match self.bytes[at..].first_chunk() {
            None => self.cut(at, 8, what),
            Some(&len) => self.cut(at + 8, u64::from_le_bytes(len), what),
        }
    }

    /// What is wrong with `need` bytes at `at` that are not given, and a note if the file has them.
    fn cut(&mut self, at: usize, need: u64, what: &dyn Display) -> Fault {
        let left = self.file_len - at;
        self.wanted = usize::try_from(need).ok().filter(|&n| n <= left).map(|n| at + n);
        Fault::Truncated { what: what.to_string(), at: at as u64, need, left: left as u64 }
    }

    /// The next `N` bytes, which are `what`.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub(super) fn fixed<const N: usize>(&mut self, what: &dyn Display) -> Result<[u8; N], Fault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    /// A `u32`, which is `what`.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub(super) fn u32(&mut self, what: &dyn Display) -> Result<u32, Fault> {
        self.fixed(what).map(u32::from_le_bytes)
    }

    /// A `u64`, which is `what`.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub(super) fn u64(&mut self, what: &dyn Display) -> Result<u64, Fault> {
        self.fixed(what).map(u64::from_le_bytes)
    }

    /// `count` as a length, if as many items of at least `size` bytes can follow.
    ///
    /// # Errors
    /// [`Fault::Count`] if they cannot.
    pub(super) fn count(&self, count: u64, size: usize, what: &dyn Display) -> Result<usize, Fault> {
        let left = self.left();
        usize::try_from(count).ok().filter(|&n| n <= left / size).ok_or_else(|| Fault::Count {
            what: what.to_string(),
            count,
            left: left as u64,
        })
    }

    /// A length-prefixed string of at most `limit` bytes that must be UTF-8 and not empty: a key or a name.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Limit`] or [`Fault::Name`].
    pub(super) fn name(&mut self, limit: u64, what: &dyn Display) -> Result<&'a str, Fault> {
        let len = self.u64(&format_args!("the length of {what}"))?;
        if len <= self.left() as u64 && len > limit {
            return Err(Fault::Limit { what: format!("bytes of {what}"), found: len, limit });
        }
        let bytes = self.take(len, what)?;
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() => Ok(text),
            _ => Err(Fault::Name { what: what.to_string(), found: super::shown::quoted(bytes) }),
        }
    }
}

/// What follows the length-prefixed string that `bytes` begin with, if they hold all of it.
fn after_string(bytes: &[u8]) -> Option<&[u8]> {
    let (&len, text) = bytes.split_first_chunk()?;
    text.get(usize::try_from(u64::from_le_bytes(len)).ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same walk by the checked calls for single items.
    fn one_by_one(cursor: &mut Cursor<'_>, n: usize) -> Result<(), Fault> {
        for _ in 0..n {
            let len = cursor.u64(&"text")?;
            cursor.take(len, &"text")?;
        }
        Ok(())
    }

    #[test]
    fn strings_are_skipped_as_one_by_one_and_with_the_same_errors() {
        let mut file = Vec::new();
        for text in ["", "a", "two words", "é"] {
            file.extend((text.len() as u64).to_le_bytes());
            file.extend(text.as_bytes());
        }
        file.extend(u64::MAX.to_le_bytes());
        file.extend(b"rest");
        let ends = (0..=file.len()).flat_map(|end| [(end, end), (end, file.len())]);
        for (end, file_len) in ends {
            for n in 0..6 {
                let mut walk = Cursor::new(&file[..end], file_len);
                let mut single = Cursor::new(&file[..end], file_len);
                let got = walk.skip_strings(n, &"text");
                let expected = one_by_one(&mut single, n);
                assert_eq!(format!("{got:?}"), format!("{expected:?}"), "{n} strings of {end} bytes");
                assert_eq!(walk.wanted(), single.wanted(), "{n} strings of {end} bytes");
                assert!(walk.wanted().is_none_or(|wanted| end < wanted && wanted <= file_len));
                if got.is_ok() {
                    assert_eq!(walk.position(), single.position());
                }
            }
        }
    }
}
