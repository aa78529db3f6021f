//! CPU tiers: the instruction sets that kernels are written for, and the choice among them.

mod choice;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::backends;
use crate::features::CpuFeatures;
use crate::probe::Arch;

pub use choice::{TierChoice, TierGap, TierReason, TierStatus};

/// A set of kernels for CPUs with certain features. All tiers compute the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CpuTier {
    /// Plain Rust for any CPU: the kernels that define the numbers.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 and its 8-bit dot products.
    Avx512Vnni,
    /// As [`CpuTier::Avx512Vnni`], with dot products of bfloat16 pairs.
    Avx512Bf16,
    /// Any AArch64.
    Neon,
    /// AArch64 with 8-bit dot products.
    NeonDotprod,
    /// AArch64 with 8-bit dot and matrix products.
    NeonI8mm,
}

/// What there is to know about a tier, apart from its features.
struct Row {
    tier: CpuTier,
    label: &'static str,
    arch: Option<Arch>,
    cargo_feature: Option<&'static str>,
    lower: Option<CpuTier>,
}

const fn row(
    tier: CpuTier,
    label: &'static str,
    arch: Arch,
    cargo_feature: &'static str,
    lower: CpuTier,
) -> Row {
    Row { tier, label, arch: Some(arch), cargo_feature: Some(cargo_feature), lower: Some(lower) }
}

/// One row per tier, indexed by it; within an architecture a later row is preferred.
const ROWS: [Row; 7] = [
    Row { tier: CpuTier::Scalar, label: "scalar", arch: None, cargo_feature: None, lower: None },
    row(CpuTier::Avx2, "avx2", Arch::X86_64, "avx2", CpuTier::Scalar),
    row(CpuTier::Avx512Vnni, "avx512vnni", Arch::X86_64, "avx512", CpuTier::Avx2),
    row(CpuTier::Avx512Bf16, "avx512bf16", Arch::X86_64, "avx512", CpuTier::Avx512Vnni),
    row(CpuTier::Neon, "neon", Arch::Aarch64, "neon", CpuTier::Scalar),
    row(CpuTier::NeonDotprod, "neon-dotprod", Arch::Aarch64, "dotprod", CpuTier::Neon),
    row(CpuTier::NeonI8mm, "neon-i8mm", Arch::Aarch64, "i8mm", CpuTier::NeonDotprod),
];

impl CpuTier {
    /// Every tier; within an architecture, a later one is preferred.
    pub const ALL: [CpuTier; ROWS.len()] = {
        let mut all = [CpuTier::Scalar; ROWS.len()];
        let mut i = 0;
        while i < ROWS.len() {
            assert!(ROWS[i].tier as usize == i, "rows are in the order of the enum");
            all[i] = ROWS[i].tier;
            i += 1;
        }
        all
    };

    const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name in `CERA_CPU_TIER`, in reports and in kernel ids.
    pub const fn label(self) -> &'static str {
        self.row().label
    }

    /// The architecture that the tier belongs to; `None` if it runs anywhere.
    pub const fn arch(self) -> Option<Arch> {
        self.row().arch
    }

    /// The Cargo feature that compiles the tier in; `None` if it is always there.
    pub const fn cargo_feature(self) -> Option<&'static str> {
        self.row().cargo_feature
    }

    /// The tier to fall back to where this one is not available or has no kernel of its own.
    pub const fn lower(self) -> Option<CpuTier> {
        self.row().lower
    }

    /// Every CPU feature that the kernels of the tier may use. The same lists compile the kernels.
    pub const fn required(self) -> CpuFeatures {
        REQUIRED[self as usize]
    }
}

/// Indexed by tier. A name that the probe does not know is a compile error here.
const REQUIRED: [CpuFeatures; ROWS.len()] = {
    let mut required = [CpuFeatures::NONE; ROWS.len()];
    let mut i = 0;
    while i < ROWS.len() {
        required[i] = CpuFeatures::from_names(backends::required_features(CpuTier::ALL[i]));
        i += 1;
    }
    required
};

impl fmt::Display for CpuTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

impl FromStr for CpuTier {
    type Err = TierError;

    /// The tier with exactly this label.
    fn from_str(label: &str) -> Result<CpuTier, TierError> {
        CpuTier::ALL
            .into_iter()
            .find(|tier| tier.label() == label)
            .ok_or_else(|| TierError::Unknown { label: label.to_owned() })
    }
}

/// Why a tier cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TierError {
    /// No tier has this label.
    #[error("{label:?} is not a CPU tier; the tiers are {}", comma_list(&CpuTier::ALL))]
    Unknown {
        /// What was given.
        label: String,
    },
    /// The tier exists, but not on this CPU or not in this build.
    #[error(
        "the CPU tier {tier}, {reason}, cannot run: {}; usable here: {}",
        choice::join_gaps(gaps),
        comma_list(usable)
    )]
    Unavailable {
        /// The tier asked for.
        tier: CpuTier,
        /// Who asked.
        reason: TierReason,
        /// Everything that is in the way.
        gaps: Vec<TierGap>,
        /// The tiers that can run.
        usable: Vec<CpuTier>,
    },
}

fn comma_list(tiers: &[CpuTier]) -> String {
    tiers.iter().map(|t| t.label()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
