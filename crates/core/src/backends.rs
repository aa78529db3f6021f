//! The tiers of this build: the only module that knows the crates that hold their kernels.

use cera_quant::kernels::TierKernels;
use cera_quant::scalar;

use crate::probe::Arch;
use crate::tier::CpuTier;

/// The tiers that have at least one kernel of their own, with their kernels where this build has them. A tier that
/// inherits everything is not listed, so that it is never claimed.
const KERNELS: [(CpuTier, Option<TierKernels>); 3] = [
    (CpuTier::Scalar, Some(scalar::KERNELS)),
    (CpuTier::Avx2, cera_simd_x86::AVX2),
    (CpuTier::Avx512Vnni, cera_simd_x86::AVX512VNNI),
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

/// What a build of cera contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    /// The architecture it is compiled for.
    pub(crate) arch: Arch,
    /// The tiers that have kernels in this version of cera, for whatever architecture.
    pub(crate) implemented: &'static [CpuTier],
    /// The Cargo features of tiers, and whether they are on.
    pub(crate) cargo_features: &'static [(&'static str, bool)],
}

impl Build {
    /// This build.
    pub(crate) fn this(arch: Arch) -> Build {
        Build { arch, implemented: &IMPLEMENTED, cargo_features: CARGO_FEATURES }
    }

    /// Whether a Cargo feature is on.
    pub(crate) fn has_cargo_feature(&self, name: &str) -> bool {
        self.cargo_features.contains(&(name, true))
    }
}
