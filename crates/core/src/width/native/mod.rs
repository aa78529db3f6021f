//! The machine that this process runs on: the one place of this module that depends on the system.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(not(target_vendor = "apple"))]
mod files;

#[cfg(target_vendor = "apple")]
pub(super) use self::apple::machine;
#[cfg(not(target_vendor = "apple"))]
pub(super) use self::files::machine;
