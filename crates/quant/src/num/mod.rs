//! The primitives that fix every rounding: fused multiply-add, `exp` and its relatives, reduction trees, conversions.
//!
//! Every tier computes its numbers through the definitions of this module (`docs/numerics.md`).

mod fma;

pub use fma::fma;
