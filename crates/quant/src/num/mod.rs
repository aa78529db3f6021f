//! The primitives that fix every rounding: fused multiply-add, `exp` and its relatives, reduction trees, conversions.
//!
//! Every tier computes its numbers through the definitions of this module (`docs/numerics.md`): the functions of
//! [`math`] and [`sum`] are written once over [`Simd`], a vocabulary of 16 virtual f32 lanes that each tier provides.

mod convert;
mod dot;
mod fma;
pub mod math;
mod scalar;
mod simd;
pub mod sum;

pub use convert::{bf16_from_f32, bf16_to_f32, flush_bf16};
pub use dot::Dot;
pub use fma::fma;
pub use scalar::Scalar;
pub use simd::{LANES, Simd};

#[cfg(test)]
mod tests;
