//! The real CPU: the one place that depends on the target's architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::detect;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use other::detect;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::detect;
