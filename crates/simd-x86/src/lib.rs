//! x86-64 kernels: one module per tier, one file per kernel family.
//!
//! There are no kernels on other targets; the feature lists of [`tiers`] are plain data and exist everywhere, so that
//! any build can say what a tier needs.

#[macro_use]
pub mod tiers;
