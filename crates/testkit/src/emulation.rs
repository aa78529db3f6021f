//! Whether tests run on an emulated processor, as `cargo xtask test` says by `CERA_TEST_EMULATED`: `1`, where every
//! computation costs a multiple and tests must be brief, or `full`, where they take the time.

const VARIABLE: &str = "CERA_TEST_EMULATED";

/// Whether the processor is emulated, so that what the system counts is the emulator's.
pub fn is_on() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Whether it is, and tests that compute much must do less.
pub fn is_brief() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value != "full")
}
