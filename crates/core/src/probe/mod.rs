//! What the CPU and its operating system offer.
//!
//! [`x86`], [`aarch64`] and [`darwin`] decode raw answers, from whatever source, on any target; [`native()`] asks the real
//! CPU once.

pub mod aarch64;
pub mod darwin;
mod native;
pub mod x86;

use std::fmt;
use std::sync::OnceLock;

use crate::features::CpuFeatures;

/// A processor architecture, as far as tiers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// AArch64.
    Aarch64,
    /// Any other; only the scalar tier runs there.
    Other,
}

impl Arch {
    /// The name, as in Rust's `target_arch`.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Other => "other",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuInfo {
    /// The architecture.
    pub arch: Arch,
    /// What the CPU calls itself, where it says so.
    pub model: Option<String>,
    /// The features that can be used: the CPU has them and the operating system saves their registers.
    pub features: CpuFeatures,
    /// What a user should know about features that are not there.
    pub notes: Vec<ProbeNote>,
}

impl CpuInfo {
    /// Keeps only those of the `asked` features that a second probe has also `seen`, and notes the others.
    #[must_use]
    pub fn confirmed_by(mut self, asked: CpuFeatures, seen: CpuFeatures) -> CpuInfo {
        let doubted: CpuFeatures =
            self.features.iter().filter(|&f| asked.contains(f) && !seen.contains(f)).collect();
        if !doubted.is_empty() {
            self.features = self.features.difference(doubted);
            self.notes.push(ProbeNote::Unconfirmed(doubted));
        }
        self
    }
}

/// Why a feature that one might expect is not there. It prints as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeNote {
    /// The CPU has these features, but the operating system does not save their registers.
    NotSavedByOs(CpuFeatures),
    /// The CPU is a virtual one and does not show AVX2.
    MaskedByHypervisor,
    /// Two probes disagree about these features, which are therefore not used.
    Unconfirmed(CpuFeatures),
}

impl fmt::Display for ProbeNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeNote::NotSavedByOs(features) => {
                write!(f, "the CPU has {features}, but the operating system does not save the registers they use")
            }
            ProbeNote::MaskedByHypervisor => f.write_str(
                "this is a virtual machine whose CPU shows no avx2, which costs much speed; if the host has it, \
                 pass the host's CPU model through to the guest",
            ),
            ProbeNote::Unconfirmed(features) => {
                write!(f, "not used because two ways to detect them disagree: {features}")
            }
        }
    }
}

/// The CPU that this process runs on, probed at the first call.
pub fn native() -> &'static CpuInfo {
    static NATIVE: OnceLock<CpuInfo> = OnceLock::new();
    NATIVE.get_or_init(native::detect)
}

#[cfg(test)]
mod tests;
