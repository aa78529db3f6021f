//! Tests of what the crate does not export; `tests/tier_parity` has those of the kernels.

#[cfg(feature = "avx512")]
mod bf16;
mod lanes;
