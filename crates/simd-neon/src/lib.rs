//! AArch64 kernels: one module per tier, one file per kernel family.
//!
//! There are no kernels on other targets; the feature lists of [`tiers`] are plain data and exist everywhere, so that
//! any build can say what a tier needs.

#[macro_use]
pub mod tiers;

#[cfg(all(target_arch = "aarch64", feature = "neon"))]
mod asm;
#[cfg(all(target_arch = "aarch64", feature = "neon"))]
#[macro_use]
mod dots;
#[cfg(all(target_arch = "aarch64", feature = "dotprod"))]
mod dotprod;
#[cfg(all(target_arch = "aarch64", feature = "i8mm"))]
mod i8mm;
#[cfg(all(target_arch = "aarch64", feature = "neon"))]
mod neon;

use cera_quant::kernels::TierKernels;

/// The kernels of the tier `neon`, on targets and in builds that have them.
#[cfg(all(target_arch = "aarch64", feature = "neon"))]
pub const NEON: Option<TierKernels> = Some(neon::KERNELS);
/// The kernels of the tier `neon`, on targets and in builds that have them.
#[cfg(not(all(target_arch = "aarch64", feature = "neon")))]
pub const NEON: Option<TierKernels> = None;

/// The kernels of the tier `neon-dotprod`, on targets and in builds that have them.
#[cfg(all(target_arch = "aarch64", feature = "dotprod"))]
pub const NEON_DOTPROD: Option<TierKernels> = Some(dotprod::KERNELS);
/// The kernels of the tier `neon-dotprod`, on targets and in builds that have them.
#[cfg(not(all(target_arch = "aarch64", feature = "dotprod")))]
pub const NEON_DOTPROD: Option<TierKernels> = None;

/// The kernels of the tier `neon-i8mm`, on targets and in builds that have them.
#[cfg(all(target_arch = "aarch64", feature = "i8mm"))]
pub const NEON_I8MM: Option<TierKernels> = Some(i8mm::KERNELS);
/// The kernels of the tier `neon-i8mm`, on targets and in builds that have them.
#[cfg(not(all(target_arch = "aarch64", feature = "i8mm")))]
pub const NEON_I8MM: Option<TierKernels> = None;

#[cfg(all(test, target_arch = "aarch64", feature = "neon"))]
mod tests;
