//! Where the bytes of a file are kept.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cera_core::AlignedBuf;

use super::header::beginning;
use super::map::Mapping;
use super::shown::shown_path;
use super::{Fault, GgufError};

/// How a file is brought into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadMode {
    /// Map the file: pages are read at first use. Nobody may change the file while it is open; if another process
    /// truncates it, the program is killed at the next touch of a missing page.
    #[default]
    Map,
    /// Read the metadata at once, and the data of each tensor into memory of its own when it is asked for. A file that
    /// is truncated meanwhile is an error; changes of data that has been read have no effect.
    Read,
}

/// The data of a tensor.
#[derive(Debug)]
pub enum TensorData<'a> {
    /// Data that the file's reader holds or maps.
    Borrowed(&'a [u8]),
    /// Data that was read for the caller.
    Owned(AlignedBuf),
}

impl Deref for TensorData<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TensorData::Borrowed(bytes) => bytes,
            TensorData::Owned(bytes) => bytes,
        }
    }
}

/// The bytes of a file.
#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Mapping),
    Read(ReadFile),
    Given(Vec<u8>),
}

/// A file that is read piece by piece.
#[derive(Debug)]
pub(super) struct ReadFile {
    /// Has one position, which readers share.
    file: Mutex<File>,
    len: usize,
    /// The beginning, as far as it was read.
    head: Vec<u8>,
}

/// Bytes of the beginning of a file that are read at first: more than most have before their data.
const HEAD: usize = 4 << 20;

impl ReadFile {
    /// Fills `out` with the bytes from `at` on.
    fn read_at(&self, at: usize, out: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(at as u64))?;
        file.read_exact(out)
    }

    /// Reads on, until `wanted` bytes of the beginning are there, and twice as many as were if the file has them.
    fn read_head(&mut self, wanted: usize) -> io::Result<()> {
        let had = self.head.len();
        let end = wanted.max(2 * had).min(self.len);
        self.head.try_reserve_exact(end - had).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut head = std::mem::take(&mut self.head);
        head.resize(end, 0);
        self.read_at(had, &mut head[had..])?;
        self.head = head;
        Ok(())
    }
}

impl Bytes {
    /// The bytes of the regular file at `path`.
    ///
    /// # Errors
    /// [`GgufError::Io`], [`GgufError::NotAFile`], [`GgufError::OutOfMemory`], and [`GgufError::Malformed`] if the file
    /// is empty.
    pub(super) fn open(path: &Path, mode: LoadMode) -> Result<Bytes, GgufError> {
        let io = |error| GgufError::Io { file: shown_path(path), error };
        // Asked before opening, because to open a pipe is to wait for its writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(GgufError::NotAFile { file: shown_path(path) });
        }
        let file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        if len == 0 {
            let fault = Fault::NotGguf { found: beginning(&[]) };
            return Err(GgufError::Malformed { file: shown_path(path), fault });
        }
        match mode {
            LoadMode::Map => Mapping::new(&file).map(Bytes::Mapped).map_err(io),
            LoadMode::Read => {
                let no_memory = |_| GgufError::OutOfMemory { file: shown_path(path), bytes: len };
                let len = usize::try_from(len).map_err(no_memory)?;
                let mut file = ReadFile { file: Mutex::new(file), len, head: Vec::new() };
                file.read_head(HEAD).map_err(io)?;
                Ok(Bytes::Read(file))
            }
        }
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> usize {
        match self {
            Bytes::Read(file) => file.len,
            Bytes::Mapped(map) => map.bytes().len(),
            Bytes::Given(bytes) => bytes.len(),
        }
    }

    /// The whole file, unless it is read piece by piece.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self {
            Bytes::Mapped(map) => Some(map.bytes()),
            Bytes::Given(bytes) => Some(bytes),
            Bytes::Read(_) => None,
        }
    }

    /// The beginning of the file as far as it is in memory, or all.
    pub(super) fn head(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map.bytes(),
            Bytes::Given(bytes) => bytes,
            Bytes::Read(file) => &file.head,
        }
    }

    /// Makes at least `wanted` bytes of the beginning be in memory, if the file, which messages call `name`, has them.
    ///
    /// # Errors
    /// [`GgufError::Io`].
    pub(super) fn read_head(&mut self, wanted: usize, name: &str) -> Result<(), GgufError> {
        match self {
            Bytes::Read(file) => file.read_head(wanted).map_err(|error| io_error(name, error)),
            Bytes::Mapped(_) | Bytes::Given(_) => Ok(()),
        }
    }

    /// Frees the memory of what was read beyond the first `len` bytes.
    pub(super) fn keep_head(&mut self, len: usize) {
        if let Bytes::Read(file) = self {
            file.head.truncate(len);
            file.head.shrink_to_fit();
        }
    }

    /// Whether `bytes` stand at `at`.
    ///
    /// # Errors
    /// [`GgufError::Io`].
    pub(super) fn has_at(&self, at: usize, bytes: &[u8; 4], name: &str) -> Result<bool, GgufError> {
        let Some(end) = at.checked_add(bytes.len()).filter(|&end| end <= self.len()) else {
            return Ok(false);
        };
        match self {
            Bytes::Mapped(map) => Ok(map.bytes()[at..end] == *bytes),
            Bytes::Given(all) => Ok(all[at..end] == *bytes),
            Bytes::Read(file) => {
                let mut found = [0; 4];
                file.read_at(at, &mut found).map_err(|error| io_error(name, error))?;
                Ok(found == *bytes)
            }
        }
    }

    /// The bytes of `range`, which lies in the file that messages call `name`.
    ///
    /// # Errors
    /// [`GgufError::Io`] and [`GgufError::OutOfMemory`] for a file that is read.
    ///
    /// # Panics
    /// If the range does not lie in the file.
    pub(super) fn data(&self, range: Range<usize>, name: &str) -> Result<TensorData<'_>, GgufError> {
        let file = match self {
            Bytes::Mapped(map) => return Ok(TensorData::Borrowed(&map.bytes()[range])),
            Bytes::Given(bytes) => return Ok(TensorData::Borrowed(&bytes[range])),
            Bytes::Read(file) => file,
        };
        assert!(range.end <= file.len, "{range:?} of a file of {} bytes", file.len);
        let mut data = AlignedBuf::zeroed(range.len())
            .map_err(|_| GgufError::OutOfMemory { file: name.to_owned(), bytes: range.len() as u64 })?;
        file.read_at(range.start, &mut data).map_err(|error| io_error(name, error))?;
        Ok(TensorData::Owned(data))
    }
}

fn io_error(name: &str, error: io::Error) -> GgufError {
    GgufError::Io { file: name.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pieces_are_those_of_the_file() {
        let source: Vec<u8> = (0..HEAD + 100_000).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&source).unwrap();
        let mut bytes = Bytes::open(file.path(), LoadMode::Read).unwrap();
        assert_eq!((bytes.len(), bytes.head().len()), (source.len(), HEAD));
        assert!(bytes.whole().is_none());
        for range in [0..1, 1..65, HEAD - 1..HEAD + 1, source.len() - 7..source.len(), 5..5] {
            let data = bytes.data(range.clone(), "x").unwrap();
            assert_eq!(data[..], source[range]);
            assert_eq!(data.as_ptr() as usize % 64, 0);
        }
        let end = source.len() - 4;
        let last: [u8; 4] = source[end..].try_into().unwrap();
        assert!(bytes.has_at(end, &last, "x").unwrap() && !bytes.has_at(end + 1, &last, "x").unwrap());
        bytes.read_head(HEAD + 1, "x").unwrap();
        assert!(bytes.head() == source);
        bytes.keep_head(10);
        assert_eq!(bytes.head(), &source[..10]);
    }

    #[test]
    fn a_file_that_was_truncated_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 100]).unwrap();
        let bytes = Bytes::open(file.path(), LoadMode::Read).unwrap();
        file.as_file().set_len(50).unwrap();
        assert!(matches!(bytes.data(40..60, "x"), Err(GgufError::Io { .. })));
        assert!(bytes.data(40..50, "x").is_ok());
    }
}
