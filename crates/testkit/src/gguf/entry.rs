//! Metadata entries and tensors in raw form, which can lie.

/// A metadata entry in raw form.
#[derive(Debug, Clone)]
pub struct KvEntry {
    /// The key, which need not be UTF-8.
    pub key: Vec<u8>,
    /// The length of the key that the file states; `None` is the true one.
    pub key_len: Option<u64>,
    /// The type id.
    pub type_id: u32,
    /// The value as it stands in the file.
    pub value: Vec<u8>,
}

impl KvEntry {
    /// An entry with the true length of its key.
    pub fn new(key: impl AsRef<[u8]>, type_id: u32, value: impl AsRef<[u8]>) -> KvEntry {
        KvEntry { key: key.as_ref().to_vec(), key_len: None, type_id, value: value.as_ref().to_vec() }
    }

    /// States another length of the key.
    pub fn key_len(self, len: u64) -> KvEntry {
        KvEntry { key_len: Some(len), ..self }
    }
}

/// A tensor in raw form.
#[derive(Debug, Clone)]
pub struct TensorEntry {
    /// The name, which need not be UTF-8.
    pub name: Vec<u8>,
    /// The length of the name that the file states; `None` is the true one.
    pub name_len: Option<u64>,
    /// The number of dimensions that the file states; `None` is the true one.
    pub n_dims: Option<u32>,
    /// The dimensions, innermost first.
    pub dims: Vec<u64>,
    /// The `ggml_type` id.
    pub type_id: u32,
    /// The offset that the file states; `None` is the true one.
    pub offset: Option<u64>,
    /// The data.
    pub data: Vec<u8>,
}

impl TensorEntry {
    /// An entry with true lengths and offset; nothing says that `data` fits `dims` and `type_id`.
    pub fn new(name: impl AsRef<[u8]>, dims: &[u64], type_id: u32, data: impl AsRef<[u8]>) -> TensorEntry {
        TensorEntry {
            name: name.as_ref().to_vec(),
            name_len: None,
            n_dims: None,
            dims: dims.to_vec(),
            type_id,
            offset: None,
            data: data.as_ref().to_vec(),
        }
    }

    /// States another length of the name.
    pub fn name_len(self, len: u64) -> TensorEntry {
        TensorEntry { name_len: Some(len), ..self }
    }

    /// States another number of dimensions.
    pub fn n_dims(self, n_dims: u32) -> TensorEntry {
        TensorEntry { n_dims: Some(n_dims), ..self }
    }

    /// States another offset.
    pub fn offset(self, offset: u64) -> TensorEntry {
        TensorEntry { offset: Some(offset), ..self }
    }
}
