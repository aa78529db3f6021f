//! The errors of the reader.

use std::io;

use super::{MAX_ALIGNMENT, MAX_DIMS, MIN_ALIGNMENT};

/// Why a GGUF file or model cannot be used. Displays as one line that begins with the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Io {
        /// The path.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// The path names a folder, a pipe or a device.
    #[error("{file}: expected a regular file")]
    NotAFile {
        /// The path.
        file: String,
    },
    /// The file does not fit memory in [`LoadMode::Read`](super::LoadMode::Read).
    #[error("{file}: cannot allocate {bytes} bytes to read it")]
    OutOfMemory {
        /// The path.
        file: String,
        /// The size of the file.
        bytes: u64,
    },
    /// The file's structure is wrong.
    #[error("{file}: {fault}")]
    Malformed {
        /// The path, or the name given to [`GgufFile::parse`](super::GgufFile::parse).
        file: String,
        /// What is wrong.
        fault: Fault,
    },
    /// A metadata key that is needed is not there.
    #[error("{file}: metadata key {key} is missing")]
    MissingKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
    },
    /// A metadata value has another type, length or range than its reader needs.
    #[error("{file}: metadata key {key}: expected {expected}, found {found}")]
    Metadata {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What fits.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// A tensor that is needed is not there.
    #[error("{file}: tensor {tensor} is missing")]
    MissingTensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// The shards of a split model do not make a whole.
    #[error("{file}: {fault}")]
    Shards {
        /// The shard at fault.
        file: String,
        /// What is wrong.
        fault: ShardFault,
    },
}

/// What is wrong with the structure of a file. Sizes and offsets are bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file begins with something else than the magic.
    #[error("not a GGUF file: expected it to begin with \"GGUF\", found {found}")]
    NotGguf {
        /// The beginning of the file.
        found: String,
    },
    /// The file was written for big-endian machines.
    #[error("a big-endian GGUF file (version {version}); only little-endian files are supported")]
    BigEndian {
        /// The version, its bytes swapped.
        version: u32,
    },
    /// A version that this reader does not know.
    #[error("GGUF version {found}; supported are versions 2 and 3")]
    Version {
        /// The version.
        found: u32,
    },
    /// The file ends inside a field of the header.
    #[error(
        "the file is truncated or its header is wrong: {what} at byte {at} needs {need} bytes, {left} are left"
    )]
    Truncated {
        /// The field.
        what: String,
        /// Where the field begins.
        at: u64,
        /// The bytes of the field.
        need: u64,
        /// The bytes up to the end of the file.
        left: u64,
    },
    /// A count is larger than what the rest of the file can hold.
    #[error("the file is truncated or its header is wrong: {count} {what} do not fit the {left} bytes left")]
    Count {
        /// What is counted.
        what: String,
        /// The count.
        count: u64,
        /// The bytes up to the end of the file.
        left: u64,
    },
    /// A number is larger than this reader accepts.
    #[error("{what}: {found} is over the limit of {limit}")]
    Limit {
        /// What is limited.
        what: String,
        /// The number.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A metadata key or a tensor name is empty or not UTF-8.
    #[error("{what}: expected UTF-8 text of at least one byte, found {found}")]
    Name {
        /// Which key or name.
        what: String,
        /// What the file has.
        found: String,
    },
    /// A metadata key occurs twice.
    #[error("metadata key {key} is given twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A metadata value or the elements of an array have an unknown type.
    #[error("metadata key {key}: unknown value type {found}")]
    ValueType {
        /// The key.
        key: String,
        /// The type id.
        found: u32,
    },
    /// A boolean is neither 0 nor 1.
    #[error("metadata key {key}: expected a boolean of 0 or 1, found {found}")]
    Bool {
        /// The key.
        key: String,
        /// The byte.
        found: u8,
    },
    /// Arrays are nested too deep.
    #[error("metadata key {key}: arrays nested deeper than {limit}")]
    Nesting {
        /// The key.
        key: String,
        /// The deepest nesting accepted.
        limit: u32,
    },
    /// `general.alignment` is unusable.
    #[error(
        "metadata key general.alignment: expected a u32 power of two from {MIN_ALIGNMENT} to {MAX_ALIGNMENT}, \
         found {found}"
    )]
    Alignment {
        /// Type and value.
        found: String,
    },
    /// A tensor name occurs twice.
    #[error("tensor {tensor} is given twice")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
    },
    /// A tensor has no dimension, or too many.
    #[error("tensor {tensor}: expected 1 to {MAX_DIMS} dimensions, found {found}")]
    DimCount {
        /// The tensor.
        tensor: String,
        /// The number of dimensions.
        found: u32,
    },
    /// A dimension is zero.
    #[error("tensor {tensor}: expected dimensions of at least 1, found {dims:?}")]
    ZeroDim {
        /// The tensor.
        tensor: String,
        /// The dimensions.
        dims: Vec<u64>,
    },
    /// The elements or bytes of a tensor do not fit the address space.
    #[error("tensor {tensor}: dimensions {dims:?} are too large")]
    DimsOverflow {
        /// The tensor.
        tensor: String,
        /// The dimensions.
        dims: Vec<u64>,
    },
    /// A tensor type that is not in the table of known types.
    #[error("tensor {tensor}: unknown tensor type {found}")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The type id.
        found: u32,
    },
    /// The rows of a tensor are not a whole number of blocks.
    #[error("tensor {tensor}: a row of {row} elements is not a whole number of {ty} blocks of {block}")]
    PartialBlock {
        /// The tensor.
        tensor: String,
        /// The tensor type.
        ty: &'static str,
        /// Elements of a row.
        row: u64,
        /// Elements of a block.
        block: u64,
    },
    /// A tensor begins at an offset that is not aligned.
    #[error("tensor {tensor}: expected an offset that is a multiple of {alignment}, found {offset}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// The offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u32,
    },
    /// The data of a tensor reaches past the end of the file.
    #[error(
        "the file is truncated or its header is wrong: tensor {tensor} of {bytes} bytes at byte {at} does not fit \
         the file of {file_bytes} bytes"
    )]
    OutsideFile {
        /// The tensor.
        tensor: String,
        /// Where the tensor begins in the file; `u64::MAX` if that overflows.
        at: u64,
        /// The bytes of the tensor.
        bytes: u64,
        /// The bytes of the file.
        file_bytes: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap at byte {at}")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The other one.
        second: String,
        /// Where the other one begins in the file.
        at: u64,
    },
    /// After the last tensor another GGUF file begins.
    #[error(
        "another GGUF header follows the last tensor at byte {at}: files must not be joined by concatenation"
    )]
    Joined {
        /// Where the other file begins.
        at: u64,
    },
}

/// What is wrong with the shards of a split model. `no` counts from 1 here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardFault {
    /// The file is a shard by its metadata, but its name does not lead to the others.
    #[error(
        "this is shard {no} of {count}, but its name does not end in -{no:05}-of-{count:05}.gguf, so that the other \
         shards cannot be found"
    )]
    Name {
        /// The shard.
        no: u32,
        /// The number of shards.
        count: u32,
    },
    /// Shards are missing.
    #[error("this is shard {no} of {count}; missing next to it: {}", list(missing))]
    Missing {
        /// The shard.
        no: u32,
        /// The number of shards.
        count: u32,
        /// The names of the missing files.
        missing: Vec<String>,
    },
    /// One shard was given where a whole model is needed.
    #[error(
        "this is shard {no} of {count}: the model is opened by the path of a shard, with the others next to it"
    )]
    Alone {
        /// The shard.
        no: u32,
        /// The number of shards.
        count: u32,
    },
    /// A shard says something else than its name or the other shards.
    #[error("{key}: expected {expected}, found {found}")]
    Mismatch {
        /// The metadata key.
        key: &'static str,
        /// The value that fits.
        expected: u64,
        /// The value of the shard.
        found: u64,
    },
    /// Two shards have a tensor of the same name.
    #[error("tensor {tensor} is also in {other}")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// The other shard.
        other: String,
    },
    /// A shard lacks the keys that every shard has.
    #[error("expected shard {no} of {count}, found a file that is not split")]
    NotSplit {
        /// The shard.
        no: u32,
        /// The number of shards.
        count: u32,
    },
}

/// The first names of a list, and how many more there are.
fn list(names: &[String]) -> String {
    const MOST: usize = 8;
    let mut out = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        out.push_str(&format!(" and {} more", names.len() - MOST));
    }
    out
}
