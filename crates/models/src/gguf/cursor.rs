//! A bounded reader over the bytes of a file.

use std::fmt::Display;

use super::Fault;

/// A position in the bytes of a file. It never moves past the end.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first byte.
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Bytes before the cursor.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Bytes up to the end.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes, which are `what`.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if fewer are left.
    pub(super) fn take(&mut self, n: u64, what: &dyn Display) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(n).ok().and_then(|n| rest.get(..n)).ok_or_else(|| Fault::Truncated {
            what: what.to_string(),
            at: self.at as u64,
            need: n,
            left: rest.len() as u64,
        })?;
        self.at += taken.len();
        Ok(taken)
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
