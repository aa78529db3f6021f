//! The AArch64 CPU of this process.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(not(target_vendor = "apple"))]
mod auxv;

use std::arch::is_aarch64_feature_detected as std_has;

#[cfg(target_vendor = "apple")]
use self::apple::ask;
#[cfg(not(target_vendor = "apple"))]
use self::auxv::ask;
use crate::features::{CpuFeature, CpuFeatures};
use crate::probe::CpuInfo;
use crate::probe::aarch64;

/// Asks the system, and takes the word of the standard library too: it knows of phones whose kernel reports features
/// that only some of the cores have. Where the system cannot be asked directly, as on Android if the auxiliary vector of
/// the process may not be read, the standard library alone answers; it has ways of its own.
pub(in crate::probe) fn detect() -> CpuInfo {
    combine(ask(), second_opinion())
}

fn combine(asked: Option<CpuInfo>, (known, seen): (CpuFeatures, CpuFeatures)) -> CpuInfo {
    match asked {
        Some(info) => info.confirmed_by(known, seen),
        None => aarch64::info(seen),
    }
}

/// The features that the standard library can detect, and those that it does.
fn second_opinion() -> (CpuFeatures, CpuFeatures) {
    let answers = [
        (CpuFeature::Neon, std_has!("neon")),
        (CpuFeature::Fp16, std_has!("fp16")),
        (CpuFeature::DotProd, std_has!("dotprod")),
        (CpuFeature::I8mm, std_has!("i8mm")),
        (CpuFeature::Bf16, std_has!("bf16")),
    ];
    let known = answers.iter().map(|&(feature, _)| feature).collect();
    (known, answers.iter().filter(|&&(_, seen)| seen).map(|&(feature, _)| feature).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library detects by code of its own; both must agree on whatever CPU runs the tests.
    #[test]
    fn the_probe_agrees_with_the_standard_library() {
        let (_, seen) = second_opinion();
        assert_eq!(ask().map(|info| info.features), Some(seen));
        let found = detect();
        assert_eq!((found.features, found.notes), (seen, Vec::new()));
    }

    #[test]
    fn a_system_that_does_not_answer_leaves_the_standard_library() {
        let (known, seen) = second_opinion();
        assert_eq!(combine(None, (known, seen)), aarch64::info(seen));
        let neon = CpuFeatures::from_names(&["neon"]);
        let all = aarch64::info(known);
        assert_eq!(combine(Some(all), (known, neon)).features, neon, "what one of both denies is not used");
    }
}
