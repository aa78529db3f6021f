//! Memory maps of files: the only unsafe code of the reader.
//!
//! The contract is that of every memory map: nobody truncates or writes the file while it is mapped. A file that another
//! process shortens ends the program with SIGBUS at the next touch of the missing pages; one that is rewritten changes
//! the weights. The bytes have no invariants of their own, and all that was checked at load (lengths, UTF-8) is checked
//! again by the safe code that uses it.

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::Mmap;

/// A read-only map of a whole file.
#[derive(Debug)]
pub(super) struct Mapping(Mmap);

impl Mapping {
    /// Maps `file`, which must not be empty.
    pub(super) fn new(file: &File) -> io::Result<Mapping> {
        // SAFETY: the map is read-only and its bytes are only read as `u8`, which any value satisfies. That the file
        // stays as it is while mapped is the documented contract of `LoadMode::Map`.
        unsafe { Mmap::map(file) }.map(Mapping)
    }

    /// The bytes of the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Tells the system that `range` will be read soon.
    pub(super) fn prefetch(&self, range: Range<usize>) {
        advice::will_need(&self.0, range);
    }

    /// Tells the system that `range` is not needed in memory for now, nor what is on its pages besides.
    pub(super) fn release(&self, range: Range<usize>) {
        advice::not_needed(&self.0, range);
    }
}

#[cfg(unix)]
mod advice {
    use std::ops::Range;

    use memmap2::{Advice, Mmap, UncheckedAdvice};

    /// A multiple of the page size of every supported system, and the most that Linux maps around a page that is touched: a
    /// large folio of the page cache.
    const AROUND: usize = 2 << 20;

    pub(super) fn will_need(map: &Mmap, range: Range<usize>) {
        if let Err(error) = map.advise_range(Advice::WillNeed, range.start, range.len()) {
            tracing::debug!(%error, "the system refused a prefetch");
        }
    }

    pub(super) fn not_needed(map: &Mmap, range: Range<usize>) {
        // With the pages of neighbours that came with those of the range. Who needs them has them mapped again, from memory.
        let base = map.as_ptr().addr();
        let start = range.start.saturating_sub((base + range.start) % AROUND);
        let end = ((base + range.end).next_multiple_of(AROUND) - base).min(map.len());
        if start >= end {
            return;
        }
        // SAFETY: the map is a shared read-only map of a file, so that a dropped page is read from the file again at
        // its next use: the bytes do not change.
        let done = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
        if let Err(error) = done {
            tracing::debug!(%error, "the system refused to release pages");
        }
    }
}

#[cfg(not(unix))]
mod advice {
    use std::ops::Range;

    use memmap2::Mmap;

    pub(super) fn will_need(_: &Mmap, _: Range<usize>) {}

    pub(super) fn not_needed(_: &Mmap, _: Range<usize>) {}
}
