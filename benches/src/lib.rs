//! Criterion benches of the kernels and the engine.
