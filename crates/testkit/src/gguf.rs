//! A GGUF writer for tests: honest by default, able to lie about everything.
//!
//! ```
//! use cera_testkit::gguf::{GgufWriter, ty};
//!
//! let honest = GgufWriter::new()
//!     .kv_str("general.architecture", "llama")
//!     .kv_u32("llama.block_count", 1)
//!     .tensor_f32("output_norm.weight", &[4], &[1.0; 4])
//!     .finish();
//! let lie = GgufWriter::new().kv_entry(KvEntry::new("a", ty::U32, [0; 4]).key_len(1 << 40)).finish();
//! # use cera_testkit::gguf::KvEntry;
//! # assert!(honest.starts_with(b"GGUF") && lie.len() == 24 + 8 + 1 + 4 + 4);
//! ```

use cera_quant::Format;

mod entry;
mod sample;

pub use entry::{KvEntry, TensorEntry};
pub use sample::sample;

/// The type ids of metadata values.
pub mod ty {
    /// Unsigned, 8 bits.
    pub const U8: u32 = 0;
    /// Signed, 8 bits.
    pub const I8: u32 = 1;
    /// Unsigned, 16 bits.
    pub const U16: u32 = 2;
    /// Signed, 16 bits.
    pub const I16: u32 = 3;
    /// Unsigned, 32 bits.
    pub const U32: u32 = 4;
    /// Signed, 32 bits.
    pub const I32: u32 = 5;
    /// Single precision.
    pub const F32: u32 = 6;
    /// One byte, 0 or 1.
    pub const BOOL: u32 = 7;
    /// A length, then bytes.
    pub const STRING: u32 = 8;
    /// Element type, count, elements.
    pub const ARRAY: u32 = 9;
    /// Unsigned, 64 bits.
    pub const U64: u32 = 10;
    /// Signed, 64 bits.
    pub const I64: u32 = 11;
    /// Double precision.
    pub const F64: u32 = 12;
}

/// A string as it stands in a file: length, then bytes.
pub fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
}

/// An array as it stands in a file: element type, count, elements. The count may lie.
pub fn array(element_type: u32, count: u64, elements: impl AsRef<[u8]>) -> Vec<u8> {
    [&element_type.to_le_bytes()[..], &count.to_le_bytes(), elements.as_ref()].concat()
}

/// Builds the bytes of a GGUF file.
#[derive(Debug, Clone)]
pub struct GgufWriter {
    magic: [u8; 4],
    version: u32,
    padding: u32,
    keys: Vec<KvEntry>,
    tensors: Vec<TensorEntry>,
    key_count: Option<u64>,
    tensor_count: Option<u64>,
    appended: Vec<u8>,
    cut: usize,
    length: Option<usize>,
}

impl Default for GgufWriter {
    fn default() -> GgufWriter {
        GgufWriter::new()
    }
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident $list:ident: $ty:ty = $id:ident;)*) => {
        /// Metadata scalars, and arrays of them.
        impl GgufWriter {$(
            #[doc = concat!("Adds a metadata value of type `", stringify!($ty), "`.")]
            #[must_use]
            pub fn $name(self, key: &str, value: $ty) -> GgufWriter {
                self.kv_raw(key, ty::$id, value.to_le_bytes())
            }

            #[doc = concat!("Adds a metadata array of `", stringify!($ty), "`.")]
            #[must_use]
            pub fn $list(self, key: &str, values: &[$ty]) -> GgufWriter {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                self.kv_array(key, ty::$id, values.len() as u64, bytes)
            }
        )*}
    };
}

scalars! {
    kv_u8 kv_u8s: u8 = U8;
    kv_i8 kv_i8s: i8 = I8;
    kv_u16 kv_u16s: u16 = U16;
    kv_i16 kv_i16s: i16 = I16;
    kv_u32 kv_u32s: u32 = U32;
    kv_i32 kv_i32s: i32 = I32;
    kv_f32 kv_f32s: f32 = F32;
    kv_u64 kv_u64s: u64 = U64;
    kv_i64 kv_i64s: i64 = I64;
    kv_f64 kv_f64s: f64 = F64;
}

/// Honest files.
impl GgufWriter {
    /// An empty file of version 3 and the default alignment of 32.
    pub fn new() -> GgufWriter {
        GgufWriter {
            magic: *b"GGUF",
            version: 3,
            padding: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            key_count: None,
            tensor_count: None,
            appended: Vec::new(),
            cut: 0,
            length: None,
        }
    }

    /// Adds a boolean.
    #[must_use]
    pub fn kv_bool(self, key: &str, value: bool) -> GgufWriter {
        self.kv_raw(key, ty::BOOL, [u8::from(value)])
    }

    /// Adds an array of booleans.
    #[must_use]
    pub fn kv_bools(self, key: &str, values: &[bool]) -> GgufWriter {
        let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
        self.kv_array(key, ty::BOOL, values.len() as u64, bytes)
    }

    /// Adds a string, which need not be UTF-8.
    #[must_use]
    pub fn kv_str(self, key: &str, value: impl AsRef<[u8]>) -> GgufWriter {
        self.kv_raw(key, ty::STRING, string(value))
    }

    /// Adds an array of strings, which need not be UTF-8.
    #[must_use]
    pub fn kv_strs<S: AsRef<[u8]>>(self, key: &str, values: impl IntoIterator<Item = S>) -> GgufWriter {
        let mut count = 0;
        let mut bytes = Vec::new();
        for value in values {
            bytes.extend(string(value));
            count += 1;
        }
        self.kv_array(key, ty::STRING, count, bytes)
    }

    /// Adds a tensor; `dims` has the length of a row first.
    ///
    /// # Panics
    /// If the type is one that cera computes with and `data` has another length than `dims` say.
    #[must_use]
    pub fn tensor(self, name: &str, dims: &[u64], type_id: u32, data: impl AsRef<[u8]>) -> GgufWriter {
        let data = data.as_ref();
        if let Some(format) = Format::from_gguf_id(type_id) {
            let row = format.row_bytes(dims[0] as usize).expect("rows of whole blocks");
            let rows = dims[1..].iter().product::<u64>() as usize;
            assert_eq!(data.len(), row * rows, "bytes of the {format} tensor {name} of {dims:?}");
        }
        self.tensor_entry(TensorEntry::new(name, dims, type_id, data))
    }

    /// Adds an F32 tensor.
    ///
    /// # Panics
    /// If there are not as many values as `dims` say.
    #[must_use]
    pub fn tensor_f32(self, name: &str, dims: &[u64], values: &[f32]) -> GgufWriter {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, dims, Format::F32.gguf_id(), bytes)
    }

    /// Aligns tensors to `alignment`, and says so in the metadata.
    #[must_use]
    pub fn alignment(self, alignment: u32) -> GgufWriter {
        self.padding(alignment).kv_u32("general.alignment", alignment)
    }

    /// Says that this is shard `no` (from 0) of `count`, with `tensors` in all of them together.
    #[must_use]
    pub fn split(self, no: u16, count: u16, tensors: i32) -> GgufWriter {
        self.kv_u16("split.no", no).kv_u16("split.count", count).kv_i32("split.tensors.count", tensors)
    }

    /// The bytes of the file.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = self.head();
        if !self.tensors.is_empty() {
            self.pad(&mut out);
        }
        for tensor in &self.tensors {
            out.extend(&tensor.data);
            self.pad(&mut out);
        }
        out.extend(&self.appended);
        out.truncate(out.len() - self.cut);
        if let Some(length) = self.length {
            out.truncate(length);
        }
        out
    }
}

/// Raw entries, and lies.
impl GgufWriter {
    /// Adds a metadata value as it stands in a file.
    #[must_use]
    pub fn kv_raw(self, key: &str, type_id: u32, value: impl AsRef<[u8]>) -> GgufWriter {
        self.kv_entry(KvEntry::new(key, type_id, value))
    }

    /// Adds a metadata array: element type, count (which may lie) and elements as they stand in a file.
    #[must_use]
    pub fn kv_array(
        self,
        key: &str,
        element_type: u32,
        count: u64,
        elements: impl AsRef<[u8]>,
    ) -> GgufWriter {
        self.kv_raw(key, ty::ARRAY, array(element_type, count, elements))
    }

    /// Adds a metadata entry.
    #[must_use]
    pub fn kv_entry(mut self, entry: KvEntry) -> GgufWriter {
        self.keys.push(entry);
        self
    }

    /// Adds a tensor.
    #[must_use]
    pub fn tensor_entry(mut self, entry: TensorEntry) -> GgufWriter {
        self.tensors.push(entry);
        self
    }

    /// Sets the magic.
    #[must_use]
    pub fn magic(self, magic: [u8; 4]) -> GgufWriter {
        GgufWriter { magic, ..self }
    }

    /// Sets the version.
    #[must_use]
    pub fn version(self, version: u32) -> GgufWriter {
        GgufWriter { version, ..self }
    }

    /// Aligns tensors to `padding` bytes without saying so in the metadata.
    #[must_use]
    pub fn padding(self, padding: u32) -> GgufWriter {
        GgufWriter { padding, ..self }
    }

    /// States another number of metadata entries.
    #[must_use]
    pub fn claim_keys(self, count: u64) -> GgufWriter {
        GgufWriter { key_count: Some(count), ..self }
    }

    /// States another number of tensors.
    #[must_use]
    pub fn claim_tensors(self, count: u64) -> GgufWriter {
        GgufWriter { tensor_count: Some(count), ..self }
    }

    /// Adds bytes after the last tensor.
    #[must_use]
    pub fn append(mut self, bytes: impl AsRef<[u8]>) -> GgufWriter {
        self.appended.extend(bytes.as_ref());
        self
    }

    /// Leaves out the last `bytes` bytes.
    #[must_use]
    pub fn cut(self, bytes: usize) -> GgufWriter {
        GgufWriter { cut: bytes, ..self }
    }

    /// Leaves out what follows the first `length` bytes.
    #[must_use]
    pub fn truncate(self, length: usize) -> GgufWriter {
        GgufWriter { length: Some(length), ..self }
    }

    /// Everything before the padding of the data section.
    fn head(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for entry in &self.keys {
            out.extend(entry.key_len.unwrap_or(entry.key.len() as u64).to_le_bytes());
            out.extend(&entry.key);
            out.extend(entry.type_id.to_le_bytes());
            out.extend(&entry.value);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            out.extend(tensor.name_len.unwrap_or(tensor.name.len() as u64).to_le_bytes());
            out.extend(&tensor.name);
            out.extend(tensor.n_dims.unwrap_or(tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(offset as u64).to_le_bytes());
            offset = (offset + tensor.data.len()).next_multiple_of(self.padding as usize);
        }
        out
    }

    fn pad(&self, out: &mut Vec<u8>) {
        out.resize(out.len().next_multiple_of(self.padding as usize), 0);
    }
}

#[cfg(test)]
mod tests;
