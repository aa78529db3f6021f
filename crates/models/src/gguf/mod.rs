//! Reading GGUF files, versions 2 and 3, little-endian.
//!
//! A file is untrusted. Every count is compared with the bytes that are left before anything is allocated, all
//! arithmetic on numbers of the file is checked, and what cannot be read is a [`GgufError`] that names the file, the key
//! or tensor, what was found and what was expected. The memory that a reader takes besides the file's bytes is a small
//! multiple of the metadata keys and tensor entries, whatever the file claims.
//!
//! - [`GgufFile`] is one file: metadata and tensors in file order, each found by name.
//! - [`GgufSet`] is a model: one file, or all the shards of a split one. Model code uses this.
//! - [`Meta`] reads metadata with the type that the reader wants.
//!
//! Strings are bytes: token texts need not be UTF-8. Keys and tensor names are UTF-8.
//!
//! Source: the GGUF specification, ggml-org/ggml `docs/gguf.md`.

mod array;
mod bytes;
mod cursor;
mod error;
mod file;
mod header;
mod layout;
mod map;
mod meta;
mod set;
mod shown;
pub(crate) use shown::shown;
mod tensor;
mod types;
mod value;

pub use array::{Array, ArrayIter, Element, Elements, StringIter, Strings};
pub use bytes::{LoadMode, TensorData};
pub use error::{Fault, GgufError, ShardFault};
pub use file::GgufFile;
pub use meta::{FromValue, Meta};
pub use set::GgufSet;
pub use shown::is_control;
pub use tensor::TensorInfo;
pub use types::TensorType;
pub use value::{Value, ValueType};

/// The alignment of a file that states none.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// The smallest alignment that a file may state.
pub const MIN_ALIGNMENT: u32 = 8;

/// The largest alignment that a file may state: a large page.
pub const MAX_ALIGNMENT: u32 = 2 << 20;

/// The most metadata entries of a file.
pub const MAX_KEYS: u64 = 1 << 16;

/// The most tensors of a file.
pub const MAX_TENSORS: u64 = 1 << 16;

/// The most bytes of a metadata key.
pub const MAX_KEY_BYTES: u64 = (1 << 16) - 1;

/// The most bytes of a tensor name.
pub const MAX_NAME_BYTES: u64 = 255;

/// The most dimensions of a tensor.
pub const MAX_DIMS: u32 = 4;

/// How deep arrays may be nested: 1 is an array of scalars or strings.
pub const MAX_ARRAY_DEPTH: u32 = 4;
