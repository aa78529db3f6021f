//! Test support: a GGUF writer that can lie, fixture readers and generators.

pub mod fixtures;
pub mod rng;
pub mod weights;
