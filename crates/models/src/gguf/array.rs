//! Arrays of metadata, decoded where they stand in the file.

use std::fmt;
use std::marker::PhantomData;

use super::value::{Value, ValueType};

/// A string array remembers where every 16th string begins.
pub(super) const MARK_STRIDE: usize = 16;

/// An array, borrowed from the file. Elements are decoded as they are asked for.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    element_type: ValueType,
    len: usize,
    /// The elements as they stand in the file; their extent was checked when the file was parsed.
    bytes: &'a [u8],
    /// For strings: entry `i` is where string `(i + 1) * MARK_STRIDE` begins in `bytes`. May be empty.
    marks: &'a [u64],
}

impl<'a> Array<'a> {
    /// An array of `len` elements that fill `bytes`.
    pub(super) fn new(element_type: ValueType, len: usize, bytes: &'a [u8], marks: &'a [u64]) -> Array<'a> {
        Array { element_type, len, bytes, marks }
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        self.element_type
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as they stand in the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements as `T`, if that is their type.
    pub fn elements<T: Element>(&self) -> Option<Elements<'a, T>> {
        (T::TYPE == self.element_type).then_some(Elements { bytes: self.bytes, element: PhantomData })
    }

    /// The elements, if they are strings.
    pub fn strings(&self) -> Option<Strings<'a>> {
        (self.element_type == ValueType::Str).then_some(Strings { array: *self })
    }

    /// The elements, whatever their type.
    pub fn iter(&self) -> ArrayIter<'a> {
        ArrayIter { element_type: self.element_type, left: self.len, bytes: self.bytes }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = ArrayIter<'a>;

    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

impl fmt::Display for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 4;
        f.write_str("[")?;
        for (i, value) in self.iter().take(MOST).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{value}")?;
        }
        if self.len > MOST {
            write!(f, ", ... {} in all", self.len)?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.element_type)
    }
}

/// A scalar that arrays hold at a fixed width.
pub trait Element: Copy + sealed::Sealed {
    /// Its type in a file.
    const TYPE: ValueType;
    /// Its bytes.
    const WIDTH: usize;

    /// The value of `WIDTH` little-endian bytes, or `None` for another number of bytes.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty = $variant:ident;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Element for $ty {
            const TYPE: ValueType = ValueType::$variant;
            const WIDTH: usize = size_of::<$ty>();

            fn decode(bytes: &[u8]) -> Option<$ty> {
                bytes.try_into().ok().map(<$ty>::from_le_bytes)
            }
        }
    )*};
}

elements! {
    u8 = U8; i8 = I8; u16 = U16; i16 = I16; u32 = U32; i32 = I32; f32 = F32; u64 = U64; i64 = I64; f64 = F64;
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const TYPE: ValueType = ValueType::Bool;
    const WIDTH: usize = 1;

    fn decode(bytes: &[u8]) -> Option<bool> {
        u8::decode(bytes).map(|byte| byte != 0)
    }
}

/// The elements of an array of scalars.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a, T> {
    bytes: &'a [u8],
    element: PhantomData<T>,
}

impl<T: Element> Elements<'_, T> {
    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<T> {
        let begin = index.checked_mul(T::WIDTH)?;
        T::decode(self.bytes.get(begin..begin.checked_add(T::WIDTH)?)?)
    }
}

impl<T: Element> Iterator for Elements<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let (head, rest) = self.bytes.split_at_checked(T::WIDTH)?;
        self.bytes = rest;
        T::decode(head)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.bytes.len() / T::WIDTH;
        (len, Some(len))
    }
}

impl<T: Element> ExactSizeIterator for Elements<'_, T> {}

/// The strings of an array, as bytes.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    array: Array<'a>,
}

impl<'a> Strings<'a> {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.array.len
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.array.len == 0
    }

    /// The string at `index`. Takes at most 16 steps.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.array.len {
            return None;
        }
        let mark = (index / MARK_STRIDE).min(self.array.marks.len());
        let begin = mark.checked_sub(1).and_then(|m| self.array.marks.get(m)).copied().unwrap_or(0);
        let bytes = self.array.bytes.get(usize::try_from(begin).ok()?..)?;
        StringIter { bytes, left: self.array.len }.nth(index - mark * MARK_STRIDE)
    }

    /// The strings in order.
    pub fn iter(&self) -> StringIter<'a> {
        StringIter { bytes: self.array.bytes, left: self.array.len }
    }
}

impl<'a> IntoIterator for Strings<'a> {
    type Item = &'a [u8];
    type IntoIter = StringIter<'a>;

    fn into_iter(self) -> StringIter<'a> {
        self.iter()
    }
}

/// Iterates over the strings of an array.
#[derive(Debug, Clone)]
pub struct StringIter<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Iterator for StringIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (string, rest) = split_string(self.bytes)?;
        self.bytes = rest;
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for StringIter<'_> {}

/// Iterates over the elements of an array of any type.
#[derive(Debug, Clone)]
pub struct ArrayIter<'a> {
    element_type: ValueType,
    left: usize,
    bytes: &'a [u8],
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (value, rest) = split_value(self.element_type, self.bytes)?;
        self.bytes = rest;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ArrayIter<'_> {}

/// The string at the start of `bytes`, and what follows it.
pub(super) fn split_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_at_checked(8)?;
    rest.split_at_checked(usize::try_from(u64::decode(len)?).ok()?)
}

/// The value at the start of `bytes`, and what follows it.
pub(super) fn split_value(ty: ValueType, bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match ty {
        ValueType::Str => split_string(bytes).map(|(string, rest)| (Value::Str(string), rest)),
        ValueType::Array => split_array(bytes).map(|(array, rest)| (Value::Array(array), rest)),
        scalar => {
            let (head, rest) = bytes.split_at_checked(scalar.width()?)?;
            Some((decode_scalar(scalar, head)?, rest))
        }
    }
}

/// The array at the start of `bytes`, and what follows it. Its depth was checked when the file was parsed.
fn split_array(bytes: &[u8]) -> Option<(Array<'_>, &[u8])> {
    let (head, body) = bytes.split_at_checked(12)?;
    let element_type = ValueType::from_id(u32::decode(&head[..4])?)?;
    let len = usize::try_from(u64::decode(&head[4..])?).ok()?;
    let size = match element_type.width() {
        Some(width) => len.checked_mul(width)?,
        None => {
            let mut rest = body;
            for _ in 0..len {
                rest = split_value(element_type, rest)?.1;
            }
            body.len() - rest.len()
        }
    };
    let (elements, rest) = body.split_at_checked(size)?;
    Some((Array::new(element_type, len, elements, &[]), rest))
}

/// The scalar of type `ty` that fills `bytes`; `None` for other types and sizes.
pub(super) fn decode_scalar(ty: ValueType, bytes: &[u8]) -> Option<Value<'static>> {
    Some(match ty {
        ValueType::U8 => Value::U8(u8::decode(bytes)?),
        ValueType::I8 => Value::I8(i8::decode(bytes)?),
        ValueType::U16 => Value::U16(u16::decode(bytes)?),
        ValueType::I16 => Value::I16(i16::decode(bytes)?),
        ValueType::U32 => Value::U32(u32::decode(bytes)?),
        ValueType::I32 => Value::I32(i32::decode(bytes)?),
        ValueType::F32 => Value::F32(f32::decode(bytes)?),
        ValueType::Bool => Value::Bool(bool::decode(bytes)?),
        ValueType::U64 => Value::U64(u64::decode(bytes)?),
        ValueType::I64 => Value::I64(i64::decode(bytes)?),
        ValueType::F64 => Value::F64(f64::decode(bytes)?),
        ValueType::Str | ValueType::Array => return None,
    })
}
