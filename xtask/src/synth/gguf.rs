//! The head of a GGUF file, version 3: everything before the tensors' data.

use cera_quant::Format;

/// What offsets of tensors are multiples of, the default of the format.
pub(super) const ALIGNMENT: u64 = 32;

const VERSION: u32 = 3;

/// Ids of the types of metadata values.
mod kind {
    pub(super) const U32: u32 = 4;
    pub(super) const I32: u32 = 5;
    pub(super) const F32: u32 = 6;
    pub(super) const BOOL: u32 = 7;
    pub(super) const STRING: u32 = 8;
    pub(super) const ARRAY: u32 = 9;
}

/// Metadata and tensors so far, in the bytes of the file. Keys and tensors stay in the order they come in.
#[derive(Default)]
pub(super) struct Header {
    keys: u64,
    metadata: Vec<u8>,
    tensors: u64,
    infos: Vec<u8>,
    data_len: u64,
}

impl Header {
    /// Adds an unsigned integer.
    pub(super) fn u32(&mut self, key: &str, value: u32) {
        self.key(key, kind::U32);
        self.metadata.extend(value.to_le_bytes());
    }

    /// Adds a single-precision number.
    pub(super) fn f32(&mut self, key: &str, value: f32) {
        self.key(key, kind::F32);
        self.metadata.extend(value.to_le_bytes());
    }

    /// Adds a truth value.
    pub(super) fn bool(&mut self, key: &str, value: bool) {
        self.key(key, kind::BOOL);
        self.metadata.push(value.into());
    }

    /// Adds a string.
    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.key(key, kind::STRING);
        put_string(&mut self.metadata, value);
    }

    /// Adds an array of strings.
    pub(super) fn strings(&mut self, key: &str, values: &[String]) {
        self.array(key, kind::STRING, values.len());
        for value in values {
            put_string(&mut self.metadata, value);
        }
    }

    /// Adds an array of signed integers.
    pub(super) fn i32s(&mut self, key: &str, values: &[i32]) {
        self.array(key, kind::I32, values.len());
        self.metadata.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Adds an array of truth values.
    pub(super) fn bools(&mut self, key: &str, values: &[bool]) {
        self.array(key, kind::BOOL, values.len());
        self.metadata.extend(values.iter().map(|&value| u8::from(value)));
    }

    /// Adds a tensor, whose data follow those of the tensor before, both padded to [`ALIGNMENT`]. `dims` starts with the
    /// elements of a row, which are whole blocks.
    pub(super) fn tensor(&mut self, name: &str, dims: &[u32], format: Format) {
        self.tensors += 1;
        put_string(&mut self.infos, name);
        self.infos.extend((dims.len() as u32).to_le_bytes());
        self.infos.extend(dims.iter().flat_map(|&dim| u64::from(dim).to_le_bytes()));
        self.infos.extend(format.gguf_id().to_le_bytes());
        self.infos.extend(self.data_len.to_le_bytes());
        let elements: u64 = dims.iter().map(|&dim| u64::from(dim)).product();
        let bytes = elements / format.block_len() as u64 * format.block_bytes() as u64;
        self.data_len += bytes.next_multiple_of(ALIGNMENT);
    }

    /// The bytes of the head with the padding before the data.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut head = b"GGUF".to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend(self.tensors.to_le_bytes());
        head.extend(self.keys.to_le_bytes());
        head.extend(self.metadata);
        head.extend(self.infos);
        head.resize(head.len().next_multiple_of(ALIGNMENT as usize), 0);
        head
    }

    fn key(&mut self, key: &str, kind: u32) {
        self.keys += 1;
        put_string(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
    }

    fn array(&mut self, key: &str, kind: u32, len: usize) {
        self.key(key, kind::ARRAY);
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend((len as u64).to_le_bytes());
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
