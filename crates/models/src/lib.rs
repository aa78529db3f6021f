//! Model files, architectures, the model itself, and its tokenizer.

mod arch;
pub mod chat;
mod error;
pub mod gguf;
mod hash;
mod model;
mod narrow;
pub mod perplexity;
pub mod sampling;
pub mod session;
pub mod tokenizer;
mod weights;

pub use error::ModelError;
pub use hash::{NotANumber, logits_hash};
pub use model::{LoadProgress, LoadStats, Model, ModelOptions, TensorKernels};

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
