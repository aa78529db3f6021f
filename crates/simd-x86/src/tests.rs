//! Tests of what the crate does not export; `tests/tier_parity` has those of the kernels.

mod lanes;
