//! One GGUF file.

use std::ops::Range;
use std::path::Path;

use super::bytes::{Bytes, TensorData};
use super::cursor::Cursor;
use super::header::{self, Metadata};
use super::layout::Tensors;
use super::shown::{shown, shown_path};
use super::{Fault, GgufError, LoadMode, Meta, TensorInfo, Value};

/// One GGUF file: metadata, tensors and data. A shard of a split model is such a file; [`GgufSet`](super::GgufSet) is
/// the whole model.
#[derive(Debug)]
pub struct GgufFile {
    name: String,
    bytes: Bytes,
    version: u32,
    alignment: u32,
    metadata: Metadata,
    tensors: Tensors,
    /// Bytes before the data.
    head_len: usize,
}

impl GgufFile {
    /// Opens and checks the file at `path`.
    ///
    /// # Errors
    /// A [`GgufError`] if it cannot be read or is not a sound GGUF file.
    pub fn open(path: impl AsRef<Path>, mode: LoadMode) -> Result<GgufFile, GgufError> {
        let path = path.as_ref();
        GgufFile::from_bytes(shown_path(path), Bytes::open(path, mode)?)
    }

    /// Checks `bytes` as a file that messages call `name`.
    ///
    /// # Errors
    /// [`GgufError::Malformed`] if it is not a sound GGUF file.
    pub fn parse(name: &str, bytes: Vec<u8>) -> Result<GgufFile, GgufError> {
        GgufFile::from_bytes(shown(name), Bytes::Given(bytes))
    }

    fn from_bytes(name: String, bytes: Bytes) -> Result<GgufFile, GgufError> {
        let mut bytes = bytes;
        let Parts { version, alignment, metadata, tensors, end } = loop {
            let mut cursor = Cursor::new(bytes.head(), bytes.len());
            match (read(&mut cursor, bytes.head()), cursor.wanted()) {
                (Ok(parts), _) => break parts,
                (Err(_), Some(wanted)) => bytes.read_head(wanted, &name)?,
                (Err(fault), None) => return Err(GgufError::Malformed { file: name, fault }),
            }
        };
        bytes.keep_head(end);
        let data_end = tensors.end(end);
        for at in [data_end, data_end.next_multiple_of(alignment as usize)] {
            if bytes.has_at(at, b"GGUF", &name)? {
                return Err(GgufError::Malformed { file: name, fault: Fault::Joined { at: at as u64 } });
            }
        }
        Ok(GgufFile { name, bytes, version, alignment, metadata, tensors, head_len: end })
    }

    /// The path, or the name given to [`GgufFile::parse`], as messages show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of the data section and of every tensor, in bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// The size of the file in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Keys and values in file order.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&str, Value<'_>)> {
        self.metadata.entries.iter().map(|(key, value)| (&**key, value.view(self.bytes.head())))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.metadata.get(key).map(|value| value.view(self.bytes.head()))
    }

    /// Metadata read with the type that is wanted.
    pub fn meta(&self) -> Meta<'_> {
        Meta::new(self)
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors.infos
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.index.get(name).and_then(|&i| self.tensors.infos.get(i))
    }

    /// The bytes before the data: metadata, and names, types and shapes of the tensors.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes.head()[..self.head_len]
    }

    /// The bytes of a part of the file.
    ///
    /// # Errors
    /// As [`GgufFile::tensor_data`].
    ///
    /// # Panics
    /// If `range` reaches past the end of the file.
    pub(crate) fn part(&self, range: Range<usize>) -> Result<TensorData<'_>, GgufError> {
        self.bytes.data(range, &self.name)
    }

    /// The data of a tensor of this file: `info.byte_len()` bytes, read now in [`LoadMode::Read`]. In a file that was
    /// opened, not given as bytes, they begin at an address that is a multiple of the file's alignment or of 64,
    /// whichever is smaller.
    ///
    /// # Errors
    /// [`GgufError::Io`] or [`GgufError::OutOfMemory`] if the data cannot be read, in [`LoadMode::Read`] only.
    ///
    /// # Panics
    /// If `info` belongs to another file and reaches past the end of this one.
    pub fn tensor_data(&self, info: &TensorInfo) -> Result<TensorData<'_>, GgufError> {
        self.part(info.file_range())
    }

    /// The data of a tensor of this file, if the file is in memory or mapped.
    ///
    /// # Panics
    /// As [`GgufFile::tensor_data`].
    pub(super) fn mapped_data(&self, info: &TensorInfo) -> Option<&[u8]> {
        self.bytes.whole().map(|bytes| &bytes[info.file_range()])
    }

    /// Asks the system to bring the data of `info` into memory in the background. Does nothing for files not mapped.
    pub fn prefetch(&self, info: &TensorInfo) {
        self.prefetch_part(info, 0..info.byte_len());
    }

    /// As [`GgufFile::prefetch`], of some bytes of the tensor.
    pub(super) fn prefetch_part(&self, info: &TensorInfo, part: Range<usize>) {
        if let Bytes::Mapped(map) = &self.bytes {
            map.prefetch(within(info, &part));
        }
    }

    /// Gives the memory of the data of `info` back to the system. It stays usable: the next access reads the file
    /// again. Does nothing for files not mapped.
    pub fn release(&self, info: &TensorInfo) {
        self.release_part(info, 0..info.byte_len());
    }

    /// As [`GgufFile::release`], of some bytes of the tensor.
    pub(super) fn release_part(&self, info: &TensorInfo, part: Range<usize>) {
        if let Bytes::Mapped(map) = &self.bytes {
            map.release(within(info, &part));
        }
    }
}

/// Where some bytes of a tensor stand in its file.
fn within(info: &TensorInfo, part: &Range<usize>) -> Range<usize> {
    let all = info.file_range();
    let at = |offset: usize| all.start + offset.min(all.len());
    at(part.start)..at(part.end)
}

struct Parts {
    version: u32,
    alignment: u32,
    metadata: Metadata,
    tensors: Tensors,
    /// Where the head ends.
    end: usize,
}

/// Reads the head of a file out of `bytes`, over which `cursor` stands at the first.
fn read(cursor: &mut Cursor<'_>, bytes: &[u8]) -> Result<Parts, Fault> {
    let prelude = header::read_prelude(cursor)?;
    let metadata = Metadata::read(cursor, prelude.keys)?;
    let alignment = metadata.alignment(bytes)?;
    let file_len = cursor.file_len();
    let tensors = Tensors::read(cursor, prelude.tensors, alignment, file_len)?;
    Ok(Parts { version: prelude.version, alignment, metadata, tensors, end: cursor.position() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_head_says_how_much_more_is_needed() {
        let bytes = cera_testkit::gguf::sample(3).finish();
        let file = GgufFile::parse("sample", bytes.clone()).unwrap();
        let mut complete = 0;
        for end in 0..=bytes.len() {
            let mut cursor = Cursor::new(&bytes[..end], bytes.len());
            match read(&mut cursor, &bytes[..end]) {
                Ok(parts) => {
                    assert!(parts.end <= end && parts.tensors.infos.len() == file.tensors().len());
                    complete += 1;
                }
                Err(fault) => {
                    let wanted = cursor.wanted();
                    assert!(
                        wanted.is_some_and(|n| end < n && n <= bytes.len()),
                        "{end}: {fault}, {wanted:?}"
                    );
                }
            }
        }
        assert!(complete > 1);
    }
}
