//! An architecture without tiers of its own.

use crate::features::CpuFeatures;
use crate::probe::{Arch, CpuInfo};

/// Nothing is known, and nothing is needed for the scalar tier.
pub(in crate::probe) fn detect() -> CpuInfo {
    CpuInfo { arch: Arch::Other, model: None, features: CpuFeatures::NONE, notes: Vec::new() }
}
