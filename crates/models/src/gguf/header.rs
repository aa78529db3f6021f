//! The head of a file: magic, version, counts and metadata.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::array::{MARK_STRIDE, decode_scalar};
use super::cursor::Cursor;
use super::shown::{quoted, shown};
use super::{
    Array, DEFAULT_ALIGNMENT, Fault, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_KEY_BYTES, MAX_KEYS, MAX_TENSORS,
    MIN_ALIGNMENT, Value, ValueType,
};

/// The fewest bytes of a metadata entry: a key of one byte, its type, and a value of one byte.
const MIN_ENTRY_BYTES: usize = 8 + 1 + 4 + 1;

/// The fewest bytes of a tensor entry: a name of one byte, one dimension, the type, and the offset.
const MIN_TENSOR_BYTES: usize = 8 + 1 + 4 + 8 + 4 + 8;

/// What stands before the metadata.
pub(super) struct Prelude {
    pub(super) version: u32,
    pub(super) tensors: usize,
    pub(super) keys: usize,
}

/// Reads magic, version and counts.
pub(super) fn read_prelude(cursor: &mut Cursor<'_>) -> Result<Prelude, Fault> {
    let head = cursor.take((cursor.left() as u64).min(4), &"the magic")?;
    if head != b"GGUF" {
        return Err(Fault::NotGguf { found: beginning(head) });
    }
    let version = cursor.u32(&"the version")?;
    match version {
        2 | 3 => {}
        // No version is as large as one of small number with its bytes swapped.
        swapped if swapped & 0xffff == 0 && swapped != 0 => {
            return Err(Fault::BigEndian { version: swapped.swap_bytes() });
        }
        found => return Err(Fault::Version { found }),
    }
    let tensors = cursor.u64(&"the number of tensors")?;
    let keys = cursor.u64(&"the number of metadata keys")?;
    let prelude = Prelude {
        version,
        tensors: cursor.count(tensors, MIN_TENSOR_BYTES, &"tensors")?,
        keys: cursor.count(keys, MIN_ENTRY_BYTES, &"metadata keys")?,
    };
    for (what, found, limit) in [("metadata keys", keys, MAX_KEYS), ("tensors", tensors, MAX_TENSORS)] {
        if found > limit {
            return Err(Fault::Limit { what: format!("number of {what}"), found, limit });
        }
    }
    Ok(prelude)
}

/// How a file that is not GGUF begins.
pub(super) fn beginning(head: &[u8]) -> String {
    match head {
        b"" => "an empty file".to_owned(),
        b"vers" => format!("{} (perhaps a Git LFS pointer instead of the file)", quoted(head)),
        b"GGML" | b"ggml" | b"lmgg" | b"fmgg" | b"tjgg" | b"algg" => {
            format!("{} (a predecessor of GGUF)", quoted(head))
        }
        _ => quoted(head),
    }
}

/// A metadata value as ranges of the file.
#[derive(Debug)]
pub(super) enum Stored {
    Scalar(Value<'static>),
    Str(Range<usize>),
    Array { element_type: ValueType, len: usize, range: Range<usize>, marks: Box<[u64]> },
}

impl Stored {
    /// The value, borrowed from the file's `bytes`.
    pub(super) fn view<'a>(&'a self, bytes: &'a [u8]) -> Value<'a> {
        match self {
            Stored::Scalar(value) => *value,
            Stored::Str(range) => Value::Str(&bytes[range.clone()]),
            Stored::Array { element_type, len, range, marks } => {
                Value::Array(Array::new(*element_type, *len, &bytes[range.clone()], marks))
            }
        }
    }
}

/// The metadata of a file.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// In file order.
    pub(super) entries: Vec<(Arc<str>, Stored)>,
    /// Where in `entries` a key is.
    pub(super) index: HashMap<Arc<str>, usize>,
}

impl Metadata {
    /// Reads `count` entries.
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Metadata, Fault> {
        let mut metadata =
            Metadata { entries: Vec::with_capacity(count), index: HashMap::with_capacity(count) };
        for i in 0..count {
            let key = cursor.name(MAX_KEY_BYTES, &format_args!("metadata key {i}"))?;
            if metadata.index.contains_key(key) {
                return Err(Fault::DuplicateKey { key: shown(key) });
            }
            let value = read_value(cursor, key)?;
            let key: Arc<str> = key.into();
            metadata.index.insert(key.clone(), i);
            metadata.entries.push((key, value));
        }
        Ok(metadata)
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Stored> {
        self.index.get(key).and_then(|&i| self.entries.get(i)).map(|(_, value)| value)
    }

    /// The alignment that the file states, or the default.
    pub(super) fn alignment(&self, bytes: &[u8]) -> Result<u32, Fault> {
        match self.get("general.alignment").map(|value| value.view(bytes)) {
            None => Ok(DEFAULT_ALIGNMENT),
            Some(Value::U32(a)) if a.is_power_of_two() && (MIN_ALIGNMENT..=MAX_ALIGNMENT).contains(&a) => {
                Ok(a)
            }
            Some(other) => Err(Fault::Alignment { found: other.described() }),
        }
    }
}

/// Reads the type and the value of `key`.
fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Stored, Fault> {
    let ty = read_type(cursor, key)?;
    match ty.width() {
        Some(width) => {
            let bytes = cursor.take(width as u64, &ValueOf(key))?;
            check_bools(ty, bytes, key)?;
            let unreadable = || Fault::ValueType { key: shown(key), found: ty.id() };
            decode_scalar(ty, bytes).map(Stored::Scalar).ok_or_else(unreadable)
        }
        None if ty == ValueType::Str => {
            let len = cursor.u64(&ValueOf(key))?;
            let begin = cursor.position();
            cursor.take(len, &ValueOf(key))?;
            Ok(Stored::Str(begin..cursor.position()))
        }
        None => {
            let (element_type, len) = read_array_head(cursor, key)?;
            let begin = cursor.position();
            let marks = match element_type {
                ValueType::Str => skip_marked_strings(cursor, len, key)?,
                _ => {
                    skip_elements(cursor, element_type, len, key, 1)?;
                    Box::default()
                }
            };
            Ok(Stored::Array { element_type, len, range: begin..cursor.position(), marks })
        }
    }
}

/// Names the value of a key in messages.
struct ValueOf<'a>(&'a str);

impl fmt::Display for ValueOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of metadata key {}", shown(self.0))
    }
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, Fault> {
    let found = cursor.u32(&ValueOf(key))?;
    ValueType::from_id(found).ok_or_else(|| Fault::ValueType { key: shown(key), found })
}

/// Reads element type and count of an array.
fn read_array_head(cursor: &mut Cursor<'_>, key: &str) -> Result<(ValueType, usize), Fault> {
    let element_type = read_type(cursor, key)?;
    let count = cursor.u64(&ValueOf(key))?;
    let len = cursor.count(
        count,
        element_type.min_bytes(),
        &format_args!("{element_type} elements in {}", ValueOf(key)),
    )?;
    Ok((element_type, len))
}

/// Moves over the elements of an array at nesting `depth`.
fn skip_elements(
    cursor: &mut Cursor<'_>,
    element_type: ValueType,
    len: usize,
    key: &str,
    depth: u32,
) -> Result<(), Fault> {
    if let Some(width) = element_type.width() {
        // The count was compared with the bytes left, so that the product does not overflow.
        let bytes = cursor.take(len as u64 * width as u64, &ValueOf(key))?;
        return check_bools(element_type, bytes, key);
    }
    if element_type == ValueType::Str {
        return cursor.skip_strings(len, &ValueOf(key));
    }
    if depth >= MAX_ARRAY_DEPTH {
        return Err(Fault::Nesting { key: shown(key), limit: MAX_ARRAY_DEPTH });
    }
    for _ in 0..len {
        let (element_type, len) = read_array_head(cursor, key)?;
        skip_elements(cursor, element_type, len, key, depth + 1)?;
    }
    Ok(())
}

/// Moves over `len` strings, and returns where every [`MARK_STRIDE`]th but the first begins.
fn skip_marked_strings(cursor: &mut Cursor<'_>, len: usize, key: &str) -> Result<Box<[u64]>, Fault> {
    let strides = len.saturating_sub(1) / MARK_STRIDE;
    let mut marks = Vec::with_capacity(strides);
    let begin = cursor.position();
    for _ in 0..strides {
        cursor.skip_strings(MARK_STRIDE, &ValueOf(key))?;
        marks.push((cursor.position() - begin) as u64);
    }
    cursor.skip_strings(len - strides * MARK_STRIDE, &ValueOf(key))?;
    Ok(marks.into_boxed_slice())
}

/// Checks that booleans are 0 or 1; other types pass.
fn check_bools(ty: ValueType, bytes: &[u8], key: &str) -> Result<(), Fault> {
    let bools: &[u8] = if ty == ValueType::Bool { bytes } else { &[] };
    match bools.iter().find(|&&byte| byte > 1) {
        Some(&found) => Err(Fault::Bool { key: shown(key), found }),
        None => Ok(()),
    }
}
