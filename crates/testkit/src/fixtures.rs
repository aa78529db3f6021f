//! The reference fixtures of `tests/fixtures`: where they are, and access to their bytes and safetensors tensors.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use safetensors::{Dtype, SafeTensors};

/// The folder `tests/fixtures` of the workspace. Its `README.md` says what every file holds.
pub fn dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures"))
}

/// The folders of `arch` whose models are supported.
pub const ARCHITECTURES: [&str; 19] = [
    "deepseek2",
    "gemma3",
    "gptoss",
    "granite",
    "granitehybrid",
    "lfm2",
    "lfm2moe",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "smollm3",
];

/// The bytes of a file, named relative to [`dir`]. Of a name that ends in `.gz`, what was compressed.
///
/// # Panics
/// If the file is missing or is not what its name says.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = dir().join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut whole = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_end(&mut whole)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    whole
}

/// A dense row-major tensor of a fixture.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor<T> {
    /// Elements per axis, the slowest axis first. A scalar has no axis.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: Vec<T>,
}

impl<T> Tensor<T> {
    /// Elements of one index of the first axis.
    pub fn row_len(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// The part of the data at index `i` of the first axis.
    ///
    /// # Panics
    /// If there is no such index.
    pub fn row(&self, i: usize) -> &[T] {
        let len = self.row_len();
        &self.data[i * len..(i + 1) * len]
    }

    /// The parts of the data at every index of the first axis.
    pub fn rows(&self) -> impl Iterator<Item = &[T]> {
        (0..self.shape.first().copied().unwrap_or(0)).map(|i| self.row(i))
    }
}

struct Entry {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A safetensors file of the fixtures.
pub struct Fixture {
    name: String,
    tensors: BTreeMap<String, Entry>,
}

impl Fixture {
    /// Reads a file, named relative to [`dir`], such as `blocks/blocks_Q4_0.safetensors`.
    ///
    /// # Panics
    /// If the file is missing or is not a safetensors file.
    pub fn open(name: &str) -> Fixture {
        Fixture::parse(name, &bytes(name))
    }

    fn parse(name: &str, bytes: &[u8]) -> Fixture {
        let file = SafeTensors::deserialize(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let entry = |view: safetensors::tensor::TensorView<'_>| Entry {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        };
        let tensors = file.iter().map(|(tensor, view)| (tensor.to_owned(), entry(view))).collect();
        Fixture { name: name.to_owned(), tensors }
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, tensor: &str) -> bool {
        self.tensors.contains_key(tensor)
    }

    /// The names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The names of the cases that start with `prefix`, sorted: tensors are called `<case>.<field>`.
    pub fn cases(&self, prefix: &str) -> Vec<&str> {
        let mut cases: Vec<&str> = self
            .names()
            .filter(|name| name.starts_with(prefix))
            .filter_map(|name| name.rsplit_once('.').map(|(case, _)| case))
            .collect();
        cases.sort_unstable();
        cases.dedup();
        cases
    }

    /// A tensor of bytes.
    ///
    /// # Panics
    /// If there is no such tensor or it has another type; so do the other getters.
    pub fn u8(&self, tensor: &str) -> Tensor<u8> {
        self.typed(tensor, Dtype::U8, |[byte]: [u8; 1]| byte)
    }

    /// A tensor of 32-bit integers.
    pub fn i32(&self, tensor: &str) -> Tensor<i32> {
        self.typed(tensor, Dtype::I32, i32::from_le_bytes)
    }

    /// A tensor of half precision, as bits.
    pub fn f16(&self, tensor: &str) -> Tensor<u16> {
        self.typed(tensor, Dtype::F16, u16::from_le_bytes)
    }

    /// A tensor of single precision.
    pub fn f32(&self, tensor: &str) -> Tensor<f32> {
        self.typed(tensor, Dtype::F32, f32::from_le_bytes)
    }

    /// A tensor of double precision.
    pub fn f64(&self, tensor: &str) -> Tensor<f64> {
        self.typed(tensor, Dtype::F64, f64::from_le_bytes)
    }

    fn typed<T, const N: usize>(
        &self,
        tensor: &str,
        dtype: Dtype,
        decode: impl Fn([u8; N]) -> T,
    ) -> Tensor<T> {
        let Some(entry) = self.tensors.get(tensor) else { panic!("{}: no tensor {tensor}", self.name) };
        assert!(
            entry.dtype == dtype,
            "{}: tensor {tensor}: expected {dtype:?}, found {:?}",
            self.name,
            entry.dtype
        );
        let (elements, rest) = entry.bytes.as_chunks::<N>();
        assert!(rest.is_empty(), "{}: tensor {tensor} has a partial element", self.name);
        Tensor { shape: entry.shape.clone(), data: elements.iter().map(|&bytes| decode(bytes)).collect() }
    }
}

#[cfg(test)]
mod tests;
