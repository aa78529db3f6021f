//! Model files, architectures and the model itself.

mod arch;
mod error;
pub mod gguf;
mod hash;
mod model;
mod narrow;

pub use error::ModelError;
pub use hash::{NotANumber, logits_hash};
pub use model::{LoadProgress, LoadStats, Model, ModelOptions, TensorKernels};
