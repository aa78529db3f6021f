//! The error type of this crate.

use crate::gguf::GgufError;

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file is at fault.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The graph cannot be built or run.
    #[error(transparent)]
    Core(#[from] cera_core::Error),
    /// A weight cannot be packed.
    #[error(transparent)]
    Quant(#[from] cera_quant::QuantError),
    /// The tokens that a shift of the context keeps leave no room for others.
    #[error("a context of {context} tokens has no room for more than the {keep} that stay when it shifts")]
    ContextShift {
        /// Tokens that stay.
        keep: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// The file has metadata only.
    #[error("{file}: the file has no tensors: it holds a vocabulary or other metadata, not a model")]
    NoTensors {
        /// The file.
        file: String,
    },
    /// The memory for weights is less than those that every token needs.
    #[error(
        "{file}: {needed} bytes of weights are needed for every token, the memory for weights is {budget} bytes"
    )]
    Memory {
        /// The file.
        file: String,
        /// Bytes for weights.
        budget: usize,
        /// Bytes of the weights that are not experts.
        needed: usize,
    },
    /// The file's architecture has no implementation.
    #[error("{file}: architecture {found} is not supported; supported: {supported}")]
    Architecture {
        /// The file.
        file: String,
        /// The architecture of the file.
        found: String,
        /// Those that have one.
        supported: String,
    },
    /// The model needs something that this version does not compute.
    #[error("{file}: {what} is not supported")]
    Unsupported {
        /// The file.
        file: String,
        /// What is needed, with the key or tensor that asks for it.
        what: String,
    },
    /// A tensor has another shape than the hyper-parameters ask for. Dimensions in file order, a row's length first.
    #[error("{file}: tensor {tensor} has dimensions {found:?}, expected {expected:?}")]
    Shape {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Dimensions that fit.
        expected: Vec<u64>,
        /// Dimensions in the file.
        found: Vec<u64>,
    },
}

impl ModelError {
    /// The fault as the field's APIs name it, if they do: `context_length_exceeded`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            ModelError::Core(cera_core::Error::ContextFull { .. }) => Some("context_length_exceeded"),
            _ => None,
        }
    }
}
