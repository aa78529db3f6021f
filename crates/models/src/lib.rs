//! Model files, architectures and the model itself.
