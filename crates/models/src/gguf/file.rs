//! One GGUF file.

use std::path::Path;

use super::bytes::Bytes;
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
        match read(&bytes) {
            Ok(Parts { version, alignment, metadata, tensors }) => {
                Ok(GgufFile { name, bytes, version, alignment, metadata, tensors })
            }
            Err(fault) => Err(GgufError::Malformed { file: name, fault }),
        }
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
        self.metadata.entries.iter().map(|(key, value)| (&**key, value.view(&self.bytes)))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.metadata.get(key).map(|value| value.view(&self.bytes))
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

    /// The data of a tensor of this file: `info.byte_len()` bytes. In a file that was opened, not given as bytes, they
    /// begin at an address that is a multiple of the file's alignment or of 64, whichever is smaller.
    ///
    /// # Panics
    /// If `info` belongs to another file and reaches past the end of this one.
    pub fn tensor_data(&self, info: &TensorInfo) -> &[u8] {
        &self.bytes[info.file_range()]
    }

    /// Asks the system to bring the data of `info` into memory in the background. Does nothing for files not mapped.
    pub fn prefetch(&self, info: &TensorInfo) {
        if let Bytes::Mapped(map) = &self.bytes {
            map.prefetch(info.file_range());
        }
    }

    /// Gives the memory of the data of `info` back to the system. It stays usable: the next access reads the file
    /// again. Does nothing for files not mapped.
    pub fn release(&self, info: &TensorInfo) {
        if let Bytes::Mapped(map) = &self.bytes {
            map.release(info.file_range());
        }
    }
}

struct Parts {
    version: u32,
    alignment: u32,
    metadata: Metadata,
    tensors: Tensors,
}

fn read(bytes: &[u8]) -> Result<Parts, Fault> {
    let mut cursor = Cursor::new(bytes);
    let prelude = header::read_prelude(&mut cursor)?;
    let metadata = Metadata::read(&mut cursor, prelude.keys)?;
    let alignment = metadata.alignment(bytes)?;
    let tensors = Tensors::read(&mut cursor, prelude.tensors, alignment, bytes.len())?;
    let end = tensors.end(cursor.position());
    for at in [end, end.next_multiple_of(alignment as usize)] {
        if bytes.get(at..).is_some_and(|rest| rest.starts_with(b"GGUF")) {
            return Err(Fault::Joined { at: at as u64 });
        }
    }
    Ok(Parts { version: prelude.version, alignment, metadata, tensors })
}
