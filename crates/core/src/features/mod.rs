//! The CPU features that tiers are made of.

use std::fmt;

macro_rules! cpu_features {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A CPU feature that a tier may need, named as in `#[target_feature]`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CpuFeature {
            $($(#[$doc])* $variant,)*
        }

        impl CpuFeature {
            /// Every feature, in declaration order.
            pub const ALL: [CpuFeature; [$($name,)*].len()] = [$(CpuFeature::$variant,)*];

            /// The name in the spelling of `#[target_feature]`.
            pub const fn name(self) -> &'static str {
                match self { $(CpuFeature::$variant => $name,)* }
            }
        }
    };
}

cpu_features! {
    /// x86: 256-bit float vectors.
    Avx = "avx";
    /// x86: 256-bit integer vectors.
    Avx2 = "avx2";
    /// x86: fused multiply-add.
    Fma = "fma";
    /// x86: conversion between half and single precision.
    F16c = "f16c";
    /// x86: 8-bit dot products on 256-bit vectors, in the VEX encoding.
    AvxVnni = "avxvnni";
    /// x86: the base of AVX-512.
    Avx512f = "avx512f";
    /// x86: 512-bit vectors of bytes and words.
    Avx512bw = "avx512bw";
    /// x86: 512-bit vectors of doublewords and quadwords.
    Avx512dq = "avx512dq";
    /// x86: the AVX-512 instructions on 128-bit and 256-bit vectors.
    Avx512vl = "avx512vl";
    /// x86: byte permutations of 512-bit vectors.
    Avx512vbmi = "avx512vbmi";
    /// x86: 8-bit dot products on 512-bit vectors.
    Avx512vnni = "avx512vnni";
    /// x86: dot products of bfloat16 pairs.
    Avx512bf16 = "avx512bf16";
    /// AArch64: 128-bit vectors.
    Neon = "neon";
    /// AArch64: half-precision arithmetic.
    Fp16 = "fp16";
    /// AArch64: 8-bit dot products.
    DotProd = "dotprod";
    /// AArch64: 8-bit matrix products.
    I8mm = "i8mm";
    /// AArch64: dot and matrix products of bfloat16.
    Bf16 = "bf16";
}

impl CpuFeature {
    /// The feature with this name.
    pub const fn from_name(name: &str) -> Option<CpuFeature> {
        let mut i = 0;
        while i < CpuFeature::ALL.len() {
            if str_eq(CpuFeature::ALL[i].name(), name) {
                return Some(CpuFeature::ALL[i]);
            }
            i += 1;
        }
        None
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

const _: () = assert!(CpuFeature::ALL.len() <= u32::BITS as usize, "a set is 32 bits");

/// `a == b`, which is not yet callable in constants.
const fn str_eq(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl fmt::Display for CpuFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of CPU features. It prints as the names, separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CpuFeatures {
    bits: u32,
}

impl CpuFeatures {
    /// The empty set.
    pub const NONE: CpuFeatures = CpuFeatures { bits: 0 };

    /// The set of the features with these names.
    ///
    /// # Panics
    /// If a name is not that of a [`CpuFeature`]; in a constant, this is a compile error.
    pub const fn from_names(names: &[&str]) -> CpuFeatures {
        let mut bits = 0;
        let mut i = 0;
        while i < names.len() {
            match CpuFeature::from_name(names[i]) {
                Some(feature) => bits |= feature.bit(),
                None => panic!("a tier lists a CPU feature that the probe does not know"),
            }
            i += 1;
        }
        CpuFeatures { bits }
    }

    /// Whether the set holds `feature`.
    pub const fn contains(self, feature: CpuFeature) -> bool {
        self.bits & feature.bit() != 0
    }

    /// Whether every feature of `other` is in this set.
    pub const fn contains_all(self, other: CpuFeatures) -> bool {
        self.bits & other.bits == other.bits
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The set with `feature` added.
    #[must_use]
    pub const fn with(self, feature: CpuFeature) -> CpuFeatures {
        CpuFeatures { bits: self.bits | feature.bit() }
    }

    /// The set with `feature` taken out.
    #[must_use]
    pub const fn without(self, feature: CpuFeature) -> CpuFeatures {
        CpuFeatures { bits: self.bits & !feature.bit() }
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub const fn difference(self, other: CpuFeatures) -> CpuFeatures {
        CpuFeatures { bits: self.bits & !other.bits }
    }

    /// The features, in the order of [`CpuFeature::ALL`].
    pub fn iter(self) -> impl Iterator<Item = CpuFeature> {
        CpuFeature::ALL.into_iter().filter(move |&feature| self.contains(feature))
    }
}

impl FromIterator<CpuFeature> for CpuFeatures {
    fn from_iter<I: IntoIterator<Item = CpuFeature>>(features: I) -> CpuFeatures {
        features.into_iter().fold(CpuFeatures::NONE, CpuFeatures::with)
    }
}

impl fmt::Display for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, feature) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{feature}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests;
