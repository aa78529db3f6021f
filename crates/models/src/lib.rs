//! Model files, architectures and the model itself.

pub mod gguf;
