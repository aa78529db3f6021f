//! What a file says about one tensor.

use std::ops::Range;
use std::sync::Arc;

use super::TensorType;

/// Name, type, shape and place of a tensor. All of it was checked when the file was parsed.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    pub(super) name: Arc<str>,
    pub(super) ty: TensorType,
    pub(super) dims: [u64; 4],
    pub(super) n_dims: usize,
    pub(super) file: usize,
    pub(super) begin: usize,
    pub(super) len: usize,
}

impl TensorInfo {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the elements.
    pub fn ty(&self) -> TensorType {
        self.ty
    }

    /// The dimensions that the file states, 1 to 4, the innermost (the length of a row) first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.n_dims]
    }

    /// Elements per row: the first dimension.
    pub fn row_len(&self) -> usize {
        // The number of all elements fits the address space, or the file would have been refused.
        self.dims[0] as usize
    }

    /// Rows: the product of all dimensions but the first.
    pub fn rows(&self) -> usize {
        self.dims[1..].iter().product::<u64>() as usize
    }

    /// Elements: the product of all dimensions.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// The index in its [`GgufSet`](super::GgufSet) of the file that holds the data; 0 in a single file.
    pub fn file_index(&self) -> usize {
        self.file
    }

    /// The bytes of the data, without padding.
    pub fn byte_len(&self) -> usize {
        self.len
    }

    /// Where in its file the data stands.
    pub fn file_range(&self) -> Range<usize> {
        self.begin..self.begin + self.len
    }
}
