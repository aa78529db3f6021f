//! Decoding of what the kernel of macOS, iOS and their like says about an AArch64 CPU.
//!
//! Source: Apple, "Determining Instruction Set Characteristics" (`hw.optional.arm.*`), and sysctl(3).

use super::{CpuInfo, aarch64};
use crate::features::{CpuFeature, CpuFeatures};

/// Where named values of the kernel come from: the system, or a table of a test.
pub trait Sysctl {
    /// The value of a name that holds a number; `None` if the system has no such name.
    fn number(&self, name: &str) -> Option<u64>;

    /// The value of a name that holds a text; `None` if the system has no such name.
    fn text(&self, name: &str) -> Option<String>;
}

/// The names that report a feature, one of which suffices: systems before macOS 12 and iOS 15 have other names for some,
/// and none for most.
const ROWS: &[(CpuFeature, &[&str])] = &[
    (CpuFeature::Neon, &["hw.optional.arm.AdvSIMD", "hw.optional.AdvSIMD", "hw.optional.neon"]),
    (CpuFeature::Fp16, &["hw.optional.arm.FEAT_FP16", "hw.optional.neon_fp16"]),
    (CpuFeature::DotProd, &["hw.optional.arm.FEAT_DotProd"]),
    (CpuFeature::I8mm, &["hw.optional.arm.FEAT_I8MM"]),
    (CpuFeature::Bf16, &["hw.optional.arm.FEAT_BF16"]),
];

/// What a CPU offers, of which the kernel says this. A name that it does not have counts as a feature that is not there.
pub fn decode(system: &impl Sysctl) -> CpuInfo {
    let is_set = |name: &&str| system.number(name).is_some_and(|value| value != 0);
    let features: CpuFeatures =
        ROWS.iter().filter(|(_, names)| names.iter().any(is_set)).map(|&(feature, _)| feature).collect();
    let features = if features.contains(CpuFeature::Neon) { features } else { CpuFeatures::NONE };
    let model = system.text("machdep.cpu.brand_string").filter(|model| !model.is_empty());
    CpuInfo { model, ..aarch64::info(features) }
}
