//! Block formats, packed layouts, quantizers, and the scalar kernels that define cera's numbers.
//!
//! Everything that another tier computes is tested for equality of bits against the code in this crate.
//! `docs/numerics.md` states the rules; [`num`] is their executable form.

pub mod acts;
pub mod args;
pub mod blocks;
mod error;
mod format;
mod gate;
pub mod kernels;
pub mod kv;
pub mod num;
pub mod ops;
pub mod pack;
pub mod scalar;

pub use error::QuantError;
pub use format::Format;
