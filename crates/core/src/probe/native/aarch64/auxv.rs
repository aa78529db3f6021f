//! Linux and Android: the auxiliary vector. Other systems have no such file.

use crate::probe::CpuInfo;
use crate::probe::aarch64::{self, HwCaps};

/// What the kernel told this process; `None` if that cannot be read.
pub(super) fn ask() -> Option<CpuInfo> {
    let auxv = std::fs::read("/proc/self/auxv").ok()?;
    HwCaps::from_auxv(&auxv).map(aarch64::decode)
}
