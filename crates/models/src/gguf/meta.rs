//! Metadata read with the type that is wanted.

use std::borrow::Cow;

use super::shown::shown;
use super::{GgufError, GgufFile, MAX_TENSORS, Strings, Value};

/// Typed access to a file's metadata.
///
/// A key that begins with `{arch}.` is looked up with the file's architecture in its place: `{arch}.block_count` is
/// `llama.block_count` in a file whose `general.architecture` is `llama`.
///
/// Integers of every width and sign are accepted where the value fits, floats of both widths for `f32`. Everything else
/// is an error that names the key, what was expected and what was found. The suffix `_or` gives a default for a key that
/// is missing, `_opt` gives `None`; a key that is there with a wrong value is an error in all forms.
#[derive(Debug, Clone, Copy)]
pub struct Meta<'a> {
    file: &'a GgufFile,
}

/// A type that metadata values can be read as.
pub trait FromValue<'a>: Sized {
    /// Says in messages what is expected, as in `u32`.
    const EXPECTED: &'static str;

    /// The value as this type, or `None` if it is of another type or out of range.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl FromValue<'_> for $ty {
            const EXPECTED: &'static str = concat!("an integer that fits ", stringify!($ty));

            fn from_value(value: Value<'_>) -> Option<$ty> {
                $ty::try_from(value.as_integer()?).ok()
            }
        }
    )*};
}

integers! { u32 u64 usize i32 i64 }

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "a float that fits f32";

    fn from_value(value: Value<'_>) -> Option<f32> {
        match value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32).filter(|narrow| narrow.is_finite() || !v.is_finite()),
            _ => None,
        }
    }
}

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a bool";

    fn from_value(value: Value<'_>) -> Option<bool> {
        match value {
            Value::Bool(v) => Some(v),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a UTF-8 string";

    fn from_value(value: Value<'a>) -> Option<&'a str> {
        std::str::from_utf8(value.as_bytes()?).ok()
    }
}

impl<'a> FromValue<'a> for Strings<'a> {
    const EXPECTED: &'static str = "an array of strings";

    fn from_value(value: Value<'a>) -> Option<Strings<'a>> {
        value.as_array()?.strings()
    }
}

macro_rules! readers {
    ($($name:ident $name_or:ident $name_opt:ident: $ty:ty = $what:literal;)*) => {
        impl<'a> Meta<'a> {$(
            #[doc = concat!("The ", $what, " at `key`.\n\n# Errors\nIf it is missing or is something else.")]
            pub fn $name(&self, key: &str) -> Result<$ty, GgufError> {
                self.get(key)
            }

            #[doc = concat!("The ", $what, " at `key`, or `default` if it is missing.\n\n# Errors\nIf it is something else.")]
            pub fn $name_or(&self, key: &str, default: $ty) -> Result<$ty, GgufError> {
                Ok(self.get_opt(key)?.unwrap_or(default))
            }

            #[doc = concat!("The ", $what, " at `key`, if there.\n\n# Errors\nIf it is something else.")]
            pub fn $name_opt(&self, key: &str) -> Result<Option<$ty>, GgufError> {
                self.get_opt(key)
            }
        )*}
    };
}

readers! {
    u32 u32_or u32_opt: u32 = "integer";
    u64 u64_or u64_opt: u64 = "integer";
    usize usize_or usize_opt: usize = "integer";
    i32 i32_or i32_opt: i32 = "integer";
    f32 f32_or f32_opt: f32 = "float";
    bool bool_or bool_opt: bool = "truth value";
    str str_or str_opt: &'a str = "UTF-8 string";
}

impl<'a> Meta<'a> {
    /// The metadata of `file`.
    pub(super) fn new(file: &'a GgufFile) -> Meta<'a> {
        Meta { file }
    }

    /// The architecture: `general.architecture`.
    ///
    /// # Errors
    /// If it is missing or not a UTF-8 string.
    pub fn arch(&self) -> Result<&'a str, GgufError> {
        self.str("general.architecture")
    }

    /// `key` in full, with the architecture in place of `{arch}`.
    ///
    /// # Errors
    /// Those of [`Meta::arch`], if the key begins with `{arch}.`.
    pub fn key<'k>(&self, key: &'k str) -> Result<Cow<'k, str>, GgufError> {
        match key.strip_prefix("{arch}.") {
            Some(rest) => Ok(format!("{}.{rest}", self.arch()?).into()),
            None => Ok(key.into()),
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of [`Meta::key`].
    pub fn has(&self, key: &str) -> Result<bool, GgufError> {
        Ok(self.value(key)?.is_some())
    }

    /// The value at `key`, if there.
    ///
    /// # Errors
    /// Those of [`Meta::key`].
    pub fn value(&self, key: &str) -> Result<Option<Value<'a>>, GgufError> {
        Ok(self.file.get(&self.key(key)?))
    }

    /// The value at `key` as `T`.
    ///
    /// # Errors
    /// If it is missing or is something else.
    pub fn get<T: FromValue<'a>>(&self, key: &str) -> Result<T, GgufError> {
        self.get_opt(key)?.map_or_else(|| Err(self.missing(key)), Ok)
    }

    /// The value at `key` as `T`, if there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn get_opt<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, GgufError> {
        let Some(value) = self.value(key)? else { return Ok(None) };
        T::from_value(value).map(Some).ok_or_else(|| self.wrong(key, T::EXPECTED.to_owned(), &value))
    }

    /// The integer at `key`, which must not be zero.
    ///
    /// # Errors
    /// If it is missing, zero, or something else.
    pub fn nonzero_u32(&self, key: &str) -> Result<u32, GgufError> {
        match self.get(key)? {
            0 => Err(self.wrong(key, "an integer of at least 1".to_owned(), &Value::U32(0))),
            n => Ok(n),
        }
    }

    /// The strings at `key`, as bytes: token texts need not be UTF-8.
    ///
    /// # Errors
    /// If they are missing or something else.
    pub fn strings(&self, key: &str) -> Result<Strings<'a>, GgufError> {
        self.get(key)
    }

    /// The strings at `key`, if there.
    ///
    /// # Errors
    /// If they are something else.
    pub fn strings_opt(&self, key: &str) -> Result<Option<Strings<'a>>, GgufError> {
        self.get_opt(key)
    }

    /// The array at `key`, every element as `T`.
    ///
    /// # Errors
    /// If it is missing, not an array, or has an element that is something else.
    pub fn list<T: FromValue<'a>>(&self, key: &str) -> Result<Vec<T>, GgufError> {
        self.list_opt(key)?.map_or_else(|| Err(self.missing(key)), Ok)
    }

    /// The array at `key`, every element as `T`, if there.
    ///
    /// # Errors
    /// If it is not an array or has an element that is something else.
    pub fn list_opt<T: FromValue<'a>>(&self, key: &str) -> Result<Option<Vec<T>>, GgufError> {
        let Some(value) = self.value(key)? else { return Ok(None) };
        let Value::Array(array) = value else {
            return Err(self.wrong(key, format!("an array, each element {}", T::EXPECTED), &value));
        };
        let mut list = Vec::with_capacity(array.len());
        for (i, element) in array.iter().enumerate() {
            list.push(
                T::from_value(element)
                    .ok_or_else(|| self.wrong(key, format!("{} as element {i}", T::EXPECTED), &element))?,
            );
        }
        Ok(Some(list))
    }

    /// One `T` per layer: a scalar at `key` holds for every layer, an array must have exactly `layers` elements.
    ///
    /// # Errors
    /// If it is missing, has another length, or has an element that is something else.
    pub fn per_layer<T: FromValue<'a> + Clone>(&self, key: &str, layers: usize) -> Result<Vec<T>, GgufError> {
        self.per_layer_opt(key, layers)?.map_or_else(|| Err(self.missing(key)), Ok)
    }

    /// As [`Meta::per_layer`], if there.
    ///
    /// # Errors
    /// If it has another length, or an element that is something else.
    pub fn per_layer_opt<T: FromValue<'a> + Clone>(
        &self,
        key: &str,
        layers: usize,
    ) -> Result<Option<Vec<T>>, GgufError> {
        match self.value(key)? {
            None => Ok(None),
            Some(value @ Value::Array(array)) if array.len() != layers => {
                Err(self.wrong(key, format!("one value or one per layer ({layers})"), &value))
            }
            Some(Value::Array(_)) => self.list_opt(key),
            // Every layer has a tensor, so that there cannot be more.
            Some(_) if layers as u64 > MAX_TENSORS => Err(self.wrong(
                "{arch}.block_count",
                format!("at most {MAX_TENSORS}"),
                &Value::U64(layers as u64),
            )),
            Some(_) => Ok(self.get_opt(key)?.map(|value| vec![value; layers])),
        }
    }

    /// The error that `key` is missing.
    pub fn missing(&self, key: &str) -> GgufError {
        GgufError::MissingKey { file: self.file.name().to_owned(), key: self.full(key) }
    }

    /// The error that the value at `key` is `found` where `expected` fits.
    pub fn wrong(&self, key: &str, expected: String, found: &Value<'_>) -> GgufError {
        GgufError::Metadata {
            file: self.file.name().to_owned(),
            key: self.full(key),
            expected,
            found: found.described(),
        }
    }

    fn full(&self, key: &str) -> String {
        self.key(key).map_or_else(|_| shown(key), |key| shown(&key))
    }
}
