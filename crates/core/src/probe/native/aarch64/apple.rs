//! macOS, iOS and their like: `sysctlbyname`.

use crate::features::{CpuFeature, CpuFeatures};
use crate::probe::{CpuInfo, darwin};
use crate::sysctl::System;

/// What this program is compiled for; every CPU that it runs on has it, even where an old system does not say so.
const BASELINE: [(CpuFeature, bool); 3] = [
    (CpuFeature::Neon, cfg!(target_feature = "neon")),
    (CpuFeature::Fp16, cfg!(target_feature = "fp16")),
    (CpuFeature::DotProd, cfg!(target_feature = "dotprod")),
];

/// What the kernel says, and what the program itself needs.
pub(super) fn ask() -> Option<CpuInfo> {
    let info = darwin::decode(&System);
    let baseline = BASELINE.iter().filter(|&&(_, compiled)| compiled).map(|&(feature, _)| feature);
    let features: CpuFeatures = info.features.iter().chain(baseline).collect();
    Some(CpuInfo { features, ..info })
}
