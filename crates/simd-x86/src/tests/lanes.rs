//! The lanes of the tiers against scalar lanes.

use cera_testkit::cpu::has_all;
use cera_testkit::parity::lanes::{operations_have_the_scalar_bits, parts_are_what_they_say};

use crate::{avx2, tiers};

#[test]
fn every_operation_gives_the_bits_of_scalar_lanes() {
    if has_all(tiers::AVX2) {
        // SAFETY: the machine has the tier.
        let s = unsafe { avx2::lanes::Lanes::new() };
        operations_have_the_scalar_bits("avx2", s);
        parts_are_what_they_say("avx2", s);
    }
    #[cfg(feature = "avx512")]
    if has_all(tiers::AVX512VNNI) {
        // SAFETY: the machine has the tier.
        let s = unsafe { crate::avx512vnni::lanes::Lanes::<crate::avx512vnni::lanes::Vnni>::new() };
        operations_have_the_scalar_bits("avx512vnni", s);
        parts_are_what_they_say("avx512vnni", s);
    }
}
