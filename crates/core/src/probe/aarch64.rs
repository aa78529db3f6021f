//! Decoding of the hardware capabilities that Linux reports on AArch64.
//!
//! Source: Linux `Documentation/arch/arm64/elf_hwcaps.rst` and `arch/arm64/include/uapi/asm/hwcap.h`; the auxiliary
//! vector is described in getauxval(3).

use super::{Arch, CpuInfo};
use crate::features::{CpuFeature, CpuFeatures};

/// The capability words `AT_HWCAP` and `AT_HWCAP2` of the auxiliary vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HwCaps {
    /// `AT_HWCAP`.
    pub hwcap: u64,
    /// `AT_HWCAP2`, zero on kernels that lack it.
    pub hwcap2: u64,
}

const AT_NULL: u64 = 0;
const AT_HWCAP: u64 = 16;
const AT_HWCAP2: u64 = 26;

impl HwCaps {
    /// The capability words of an auxiliary vector of a 64-bit process, as in `/proc/self/auxv`: pairs of a key and a
    /// value in native byte order. `None` if there is no `AT_HWCAP`.
    pub fn from_auxv(auxv: &[u8]) -> Option<HwCaps> {
        let (words, _) = auxv.as_chunks::<8>();
        let (entries, _) = words.as_chunks::<2>();
        let mut hwcap = None;
        let mut hwcap2 = 0;
        for [key, value] in entries {
            match u64::from_ne_bytes(*key) {
                AT_NULL => break,
                AT_HWCAP => hwcap = Some(u64::from_ne_bytes(*value)),
                AT_HWCAP2 => hwcap2 = u64::from_ne_bytes(*value),
                _ => {}
            }
        }
        hwcap.map(|hwcap| HwCaps { hwcap, hwcap2 })
    }
}

/// Every bit of `hwcap` and of `hwcap2` that a feature needs.
const ROWS: &[(CpuFeature, HwCaps)] = &[
    (CpuFeature::Neon, HwCaps { hwcap: HWCAP_FP | HWCAP_ASIMD, hwcap2: 0 }),
    (CpuFeature::Fp16, HwCaps { hwcap: HWCAP_FPHP | HWCAP_ASIMDHP, hwcap2: 0 }),
    (CpuFeature::DotProd, HwCaps { hwcap: HWCAP_ASIMDDP, hwcap2: 0 }),
    (CpuFeature::I8mm, HwCaps { hwcap: 0, hwcap2: HWCAP2_I8MM }),
    (CpuFeature::Bf16, HwCaps { hwcap: 0, hwcap2: HWCAP2_BF16 }),
];

const HWCAP_FP: u64 = 1 << 0;
const HWCAP_ASIMD: u64 = 1 << 1;
const HWCAP_FPHP: u64 = 1 << 9;
const HWCAP_ASIMDHP: u64 = 1 << 10;
const HWCAP_ASIMDDP: u64 = 1 << 20;
const HWCAP2_I8MM: u64 = 1 << 13;
const HWCAP2_BF16: u64 = 1 << 14;

/// What a CPU with these capabilities offers. Everything else builds on NEON.
pub fn decode(caps: HwCaps) -> CpuInfo {
    let features: CpuFeatures = ROWS
        .iter()
        .filter(|(_, need)| caps.hwcap & need.hwcap == need.hwcap && caps.hwcap2 & need.hwcap2 == need.hwcap2)
        .map(|&(feature, _)| feature)
        .collect();
    let features = if features.contains(CpuFeature::Neon) { features } else { CpuFeatures::NONE };
    info(features)
}

/// The result of a probe that found `features`.
pub(super) fn info(features: CpuFeatures) -> CpuInfo {
    CpuInfo { arch: Arch::Aarch64, model: None, features, notes: Vec::new() }
}
