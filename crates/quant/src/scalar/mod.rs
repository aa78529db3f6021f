//! The scalar kernels: the definition of every number that the engine produces.

pub mod gemm;
pub mod ops;
