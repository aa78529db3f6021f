//! Where the bytes of a file are kept.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

use bytemuck::{Pod, Zeroable};

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
    /// Read the whole file into memory. Later changes of the file have no effect.
    Read,
}

/// 64 bytes. Bytes are kept in such lines of 64, so that what is aligned in a file is aligned in memory.
#[derive(Debug, Clone, Copy, Zeroable, Pod)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

const LINE: usize = size_of::<Line>();
const _: () = assert!(LINE == 64);

/// The bytes of a file.
#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Mapping),
    Read { lines: Vec<Line>, len: usize },
    Given(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map.bytes(),
            Bytes::Read { lines, len } => &bytemuck::cast_slice(lines)[..*len],
            Bytes::Given(bytes) => bytes,
        }
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
                let no_memory = || GgufError::OutOfMemory { file: shown_path(path), bytes: len };
                let len = usize::try_from(len).map_err(|_| no_memory())?;
                let mut lines = Vec::new();
                lines.try_reserve_exact(len.div_ceil(LINE)).map_err(|_| no_memory())?;
                read_lines(file, &mut lines, len).map_err(io)?;
                Ok(Bytes::Read { lines, len })
            }
        }
    }
}

/// Reads exactly `len` bytes, a piece at a time, so that memory is touched once it is filled.
fn read_lines(mut file: impl Read, lines: &mut Vec<Line>, len: usize) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(PIECE);
        let begin = lines.len();
        lines.resize(begin + piece.div_ceil(LINE), Line::zeroed());
        file.read_exact(&mut bytemuck::cast_slice_mut(&mut lines[begin..])[..piece])?;
        done += piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_exactly_the_bytes() {
        for len in [1, 63, 64, 65, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (3 << 20) + 100] {
            let source: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut lines = Vec::new();
            read_lines(&source[..], &mut lines, len).unwrap();
            let bytes = Bytes::Read { lines, len };
            assert!(bytes[..] == source[..], "{len} bytes");
            assert_eq!(bytes.as_ptr() as usize % 64, 0);
        }
        assert!(read_lines(&[0; 10][..], &mut Vec::new(), 11).is_err());
    }
}
