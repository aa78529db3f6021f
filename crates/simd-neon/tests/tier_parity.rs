//! Every kernel of the tier under test against the scalar code, bit for bit.
//!
//! `CERA_CPU_TIER` names the tier; without it every tier that this machine has is under test.
#![cfg(target_arch = "aarch64")]

use cera_quant::Format;
use cera_simd_neon::tiers;
use cera_testkit::parity::{Tier, available};

/// Formats without blocks, whose kernels are those of `neon`.
const FLOATS: usize = 3;

fn tiers_under_test() -> Vec<Tier> {
    available(&[
        ("neon", tiers::NEON, cera_simd_neon::NEON, Format::COUNT),
        ("neon-dotprod", tiers::NEON_DOTPROD, cera_simd_neon::NEON_DOTPROD, Format::COUNT - FLOATS),
        ("neon-i8mm", tiers::NEON_I8MM, cera_simd_neon::NEON_I8MM, Format::COUNT - FLOATS),
    ])
}

cera_testkit::tier_parity!(tiers_under_test);
