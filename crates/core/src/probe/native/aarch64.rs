//! The AArch64 CPU of this process.

use std::arch::is_aarch64_feature_detected as std_has;

use crate::features::{CpuFeature, CpuFeatures};
use crate::probe::CpuInfo;
use crate::probe::aarch64::{self, HwCaps};

/// Reads the auxiliary vector; where there is none (other systems than Linux), asks the standard library.
pub(in crate::probe) fn detect() -> CpuInfo {
    match std::fs::read("/proc/self/auxv").ok().and_then(|auxv| HwCaps::from_auxv(&auxv)) {
        Some(caps) => aarch64::decode(caps),
        None => aarch64::info(std_features()),
    }
}

fn std_features() -> CpuFeatures {
    [
        (CpuFeature::Neon, std_has!("neon")),
        (CpuFeature::Fp16, std_has!("fp16")),
        (CpuFeature::DotProd, std_has!("dotprod")),
        (CpuFeature::I8mm, std_has!("i8mm")),
        (CpuFeature::Bf16, std_has!("bf16")),
    ]
    .into_iter()
    .filter_map(|(feature, present)| present.then_some(feature))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library detects by code of its own; both must agree on whatever CPU runs the tests.
    #[test]
    fn the_probe_agrees_with_the_standard_library() {
        assert_eq!(detect().features, std_features());
    }
}
