//! Every kernel of the tier under test against the scalar code, bit for bit.
//!
//! `CERA_CPU_TIER` names the tier; without it every tier that this machine has is under test.
#![cfg(target_arch = "x86_64")]

mod acts;
mod matrix;
mod ops;

use cera_quant::kernels::TierKernels;
use cera_simd_x86::tiers;
use cera_testkit::cpu::has_all;

/// A tier under test: this machine has it.
pub(crate) struct Tier {
    label: &'static str,
    kernels: TierKernels,
}

/// The tiers under test; none if `CERA_CPU_TIER` names one without kernels in this crate. Without that variable, those that
/// this machine lacks are named on standard error.
///
/// # Panics
/// If `CERA_CPU_TIER` names a tier that this machine or this build lacks.
#[allow(clippy::print_stderr, reason = "what was not tested must be seen")]
pub(crate) fn available() -> Vec<Tier> {
    let all = [
        ("avx2", tiers::AVX2, cera_simd_x86::AVX2),
        ("avx512vnni", tiers::AVX512VNNI, cera_simd_x86::AVX512VNNI),
        ("avx512bf16", tiers::AVX512BF16, cera_simd_x86::AVX512BF16),
    ];
    let asked = std::env::var("CERA_CPU_TIER").ok();
    let mut under_test = Vec::new();
    for (label, features, kernels) in all {
        if asked.as_ref().is_some_and(|asked| asked != label) {
            continue;
        }
        match kernels.filter(|_| has_all(features)) {
            Some(kernels) => under_test.push(Tier { label, kernels }),
            None if asked.is_some() => panic!("this CPU or this build lacks the tier {label}"),
            None => eprintln!("NOT TESTED: this CPU or this build lacks the tier {label}"),
        }
    }
    under_test
}

/// The first element that differs.
pub(crate) fn difference(got: &[f32], expected: &[f32]) -> Option<String> {
    assert_eq!(got.len(), expected.len());
    let i = (0..got.len()).find(|&i| got[i].to_bits() != expected[i].to_bits())?;
    Some(format!(
        "element {i} is {:e} ({:08x}), not {:e} ({:08x})",
        got[i],
        got[i].to_bits(),
        expected[i],
        expected[i].to_bits()
    ))
}
