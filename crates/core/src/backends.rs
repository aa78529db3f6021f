//! The tiers of this build: the only module that knows the crates that hold their kernels.

use std::sync::OnceLock;

use cera_quant::kernels::TierKernels;
use cera_quant::scalar;

use crate::probe::{self, Arch};
use crate::tier::CpuTier;

/// The tiers that have at least one kernel of their own, with their kernels where this build has them. A tier that
/// inherits everything is not listed, so that it is never claimed.
const KERNELS: [(CpuTier, Option<TierKernels>); 7] = [
    (CpuTier::Scalar, Some(scalar::KERNELS)),
    (CpuTier::Avx2, cera_simd_x86::AVX2),
    (CpuTier::Avx512Vnni, cera_simd_x86::AVX512VNNI),
    (CpuTier::Avx512Bf16, cera_simd_x86::AVX512BF16),
    (CpuTier::Neon, cera_simd_neon::NEON),
    (CpuTier::NeonDotprod, cera_simd_neon::NEON_DOTPROD),
    (CpuTier::NeonI8mm, cera_simd_neon::NEON_I8MM),
];

/// The tiers of [`KERNELS`].
const IMPLEMENTED: [CpuTier; KERNELS.len()] = {
    let mut tiers = [CpuTier::Scalar; KERNELS.len()];
    let mut i = 0;
    while i < KERNELS.len() {
        tiers[i] = KERNELS[i].0;
        i += 1;
    }
    tiers
};

/// The Cargo features that compile tiers in, and whether this build has them.
const CARGO_FEATURES: &[(&str, bool)] = &[
    ("avx2", cfg!(feature = "avx2")),
    ("avx512", cfg!(feature = "avx512")),
    ("neon", cfg!(feature = "neon")),
    ("dotprod", cfg!(feature = "dotprod")),
    ("i8mm", cfg!(feature = "i8mm")),
];

/// The CPU features that the kernels of a tier are compiled for, by name.
pub(crate) const fn required_features(tier: CpuTier) -> &'static [&'static str] {
    match tier {
        CpuTier::Scalar => &[],
        CpuTier::Avx2 => cera_simd_x86::tiers::AVX2,
        CpuTier::Avx512Vnni => cera_simd_x86::tiers::AVX512VNNI,
        CpuTier::Avx512Bf16 => cera_simd_x86::tiers::AVX512BF16,
        CpuTier::Neon => cera_simd_neon::tiers::NEON,
        CpuTier::NeonDotprod => cera_simd_neon::tiers::NEON_DOTPROD,
        CpuTier::NeonI8mm => cera_simd_neon::tiers::NEON_I8MM,
    }
}

/// The kernels that a tier has of its own, if this build has any.
pub(crate) fn kernels(tier: CpuTier) -> Option<TierKernels> {
    KERNELS.iter().find(|(of, _)| *of == tier).and_then(|(_, kernels)| *kernels)
}

/// Whether the instructions of a tier compute here what its kernels rely on. Each tier is tested once in a process; one
/// that this CPU does not have passes, since there is nothing that could be run.
fn passes_self_test(tier: CpuTier) -> bool {
    static PASSED: [OnceLock<bool>; CpuTier::ALL.len()] = [const { OnceLock::new() }; CpuTier::ALL.len()];
    let test = kernels(tier).and_then(|kernels| kernels.self_test);
    let test = test.filter(|_| probe::native().features.contains_all(tier.required()));
    // SAFETY: this CPU has every feature of the tier.
    test.is_none_or(|test| *PASSED[tier as usize].get_or_init(|| unsafe { test() }))
}

/// What a build of cera contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    /// The architecture it is compiled for.
    pub(crate) arch: Arch,
    /// The tiers that have kernels in this version of cera, for whatever architecture.
    pub(crate) implemented: &'static [CpuTier],
    /// The Cargo features of tiers, and whether they are on.
    pub(crate) cargo_features: &'static [(&'static str, bool)],
    /// Whether a tier passes the test of its instructions on this CPU.
    pub(crate) passes_self_test: fn(CpuTier) -> bool,
}

impl Build {
    /// This build.
    pub(crate) fn this(arch: Arch) -> Build {
        Build { arch, implemented: &IMPLEMENTED, cargo_features: CARGO_FEATURES, passes_self_test }
    }

    /// Whether a Cargo feature is on.
    pub(crate) fn has_cargo_feature(&self, name: &str) -> bool {
        self.cargo_features.contains(&(name, true))
    }
}
