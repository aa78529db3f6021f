//! Every kernel of the tier under test against the scalar code, bit for bit.
//!
//! `CERA_CPU_TIER` names the tier; without it every tier that this machine has is under test.
#![cfg(target_arch = "x86_64")]

use cera_quant::Format;
use cera_simd_x86::tiers;
use cera_testkit::parity::{Tier, available};

fn tiers_under_test() -> Vec<Tier> {
    available(&[
        ("avx2", tiers::AVX2, cera_simd_x86::AVX2, Format::COUNT),
        ("avx512vnni", tiers::AVX512VNNI, cera_simd_x86::AVX512VNNI, Format::COUNT),
        ("avx512bf16", tiers::AVX512BF16, cera_simd_x86::AVX512BF16, 1),
    ])
}

cera_testkit::tier_parity!(tiers_under_test);
