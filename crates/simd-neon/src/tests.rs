//! Tests of what the crate does not export; `tests/tier_parity` has those of the kernels.

use cera_testkit::parity::lanes::{operations_have_the_scalar_bits, parts_are_what_they_say};

use crate::neon::lanes::{Lanes, Neon};

#[test]
fn every_operation_gives_the_bits_of_scalar_lanes() {
    // SAFETY: NEON is part of every AArch64.
    let s = unsafe { Lanes::<Neon>::new() };
    operations_have_the_scalar_bits("neon", s);
    parts_are_what_they_say("neon", s);
}
