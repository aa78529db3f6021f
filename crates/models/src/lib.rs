//! Model files, architectures and the model itself.

mod arch;
mod error;
pub mod gguf;
mod model;

pub use error::ModelError;
pub use model::{Model, ModelOptions, TensorKernels};
