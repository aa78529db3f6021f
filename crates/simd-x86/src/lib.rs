//! x86-64 kernels: one module per tier, one file per kernel family.
//!
//! There are no kernels on other targets; the feature lists of [`tiers`] are plain data and exist everywhere, so that
//! any build can say what a tier needs.

#[macro_use]
pub mod tiers;

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
mod frame;

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
mod avx512bf16;
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
mod avx512vnni;

use cera_quant::kernels::TierKernels;

/// The kernels of the tier `avx2`, on targets and in builds that have them.
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
pub const AVX2: Option<TierKernels> = Some(avx2::KERNELS);
/// The kernels of the tier `avx2`, on targets and in builds that have them.
#[cfg(not(all(target_arch = "x86_64", feature = "avx2")))]
pub const AVX2: Option<TierKernels> = None;

/// The kernels of the tier `avx512vnni`, on targets and in builds that have them.
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
pub const AVX512VNNI: Option<TierKernels> = Some(avx512vnni::KERNELS);
/// The kernels of the tier `avx512vnni`, on targets and in builds that have them.
#[cfg(not(all(target_arch = "x86_64", feature = "avx512")))]
pub const AVX512VNNI: Option<TierKernels> = None;

/// The kernels of the tier `avx512bf16`, on targets and in builds that have them.
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
pub const AVX512BF16: Option<TierKernels> = Some(avx512bf16::KERNELS);
/// The kernels of the tier `avx512bf16`, on targets and in builds that have them.
#[cfg(not(all(target_arch = "x86_64", feature = "avx512")))]
pub const AVX512BF16: Option<TierKernels> = None;

#[cfg(all(test, target_arch = "x86_64", feature = "avx2"))]
mod tests;
