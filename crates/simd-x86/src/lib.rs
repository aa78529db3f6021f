//! x86-64 kernels: one module per tier, one file per kernel family.
//!
//! There are no kernels on other targets; the feature lists of [`tiers`] are plain data and exist everywhere, so that
//! any build can say what a tier needs.

#[macro_use]
pub mod tiers;

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod kernels;
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
#[macro_use]
mod matrix;

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
pub mod avx2;
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
pub mod avx512vnni;

#[cfg(all(test, target_arch = "x86_64", feature = "avx512"))]
mod tests;
