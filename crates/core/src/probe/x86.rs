//! Decoding of what an x86-64 CPU says about itself.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID; volume 1, 13.2 and 14.3
//! (the operating system's part); AMD64 Architecture Programmer's Manual, volume 3, appendix E.

use super::{Arch, CpuInfo, ProbeNote};
use crate::features::{CpuFeature, CpuFeatures};

/// The four registers that `CPUID` fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpuid {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// Where the raw answers come from: the CPU, or a table of a test.
pub trait X86Source {
    /// The answer of `CPUID`. Asked only for leaves up to the highest that leaf 0 (or 0x8000_0000) names.
    fn cpuid(&self, leaf: u32, subleaf: u32) -> Cpuid;

    /// The answer of `XGETBV` for register 0. Asked only if leaf 1 says that the operating system enabled it.
    fn xcr0(&self) -> u64;
}

/// Whose registers must be saved for a feature to be usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// XMM and YMM; the feature also builds on AVX.
    Ymm,
    /// XMM, YMM, ZMM and the masks; the feature also builds on AVX-512F.
    Zmm,
}

/// XCR0 bits of the XMM and YMM registers.
const XCR0_YMM: u64 = 0b0000_0110;
/// XCR0 bits of the XMM, YMM, mask and ZMM registers.
const XCR0_ZMM: u64 = 0b1110_0110;

const LEAF1_ECX_OSXSAVE: u32 = 1 << 27;
const LEAF1_ECX_HYPERVISOR: u32 = 1 << 31;

/// The leaves that hold features. A leaf that the CPU lacks reads as zeros.
struct Leaves {
    l1: Cpuid,
    l7: Cpuid,
    l7_1: Cpuid,
}

impl Leaves {
    fn read(cpu: &impl X86Source) -> Leaves {
        let highest = cpu.cpuid(0, 0).eax;
        let leaf = |leaf: u32, subleaf: u32| {
            if leaf <= highest { cpu.cpuid(leaf, subleaf) } else { Cpuid::default() }
        };
        let l7 = leaf(7, 0);
        // EAX of subleaf 0 is the highest subleaf.
        let l7_1 = if l7.eax >= 1 { leaf(7, 1) } else { Cpuid::default() };
        Leaves { l1: leaf(1, 0), l7, l7_1 }
    }
}

/// Where a feature is reported and what it builds on.
struct Row {
    feature: CpuFeature,
    register: fn(&Leaves) -> u32,
    bit: u32,
    state: State,
}

const fn row(feature: CpuFeature, register: fn(&Leaves) -> u32, bit: u32, state: State) -> Row {
    Row { feature, register, bit, state }
}

const ROWS: &[Row] = &[
    row(CpuFeature::Avx, |l| l.l1.ecx, 28, State::Ymm),
    row(CpuFeature::Fma, |l| l.l1.ecx, 12, State::Ymm),
    row(CpuFeature::F16c, |l| l.l1.ecx, 29, State::Ymm),
    row(CpuFeature::Avx2, |l| l.l7.ebx, 5, State::Ymm),
    row(CpuFeature::AvxVnni, |l| l.l7_1.eax, 4, State::Ymm),
    row(CpuFeature::Avx512f, |l| l.l7.ebx, 16, State::Zmm),
    row(CpuFeature::Avx512dq, |l| l.l7.ebx, 17, State::Zmm),
    row(CpuFeature::Avx512bw, |l| l.l7.ebx, 30, State::Zmm),
    row(CpuFeature::Avx512vl, |l| l.l7.ebx, 31, State::Zmm),
    row(CpuFeature::Avx512vbmi, |l| l.l7.ecx, 1, State::Zmm),
    row(CpuFeature::Avx512vnni, |l| l.l7.ecx, 11, State::Zmm),
    row(CpuFeature::Avx512bf16, |l| l.l7_1.eax, 5, State::Zmm),
];

/// What a CPU with these answers offers.
pub fn decode(cpu: &impl X86Source) -> CpuInfo {
    let leaves = Leaves::read(cpu);
    let reported: CpuFeatures =
        ROWS.iter().filter(|r| (r.register)(&leaves) >> r.bit & 1 == 1).map(|r| r.feature).collect();
    let xcr0 = if leaves.l1.ecx & LEAF1_ECX_OSXSAVE != 0 { cpu.xcr0() } else { 0 };

    let mut features = CpuFeatures::NONE;
    let mut unsaved = CpuFeatures::NONE;
    for row in ROWS.iter().filter(|r| reported.contains(r.feature)) {
        let (base, saved) = match row.state {
            State::Ymm => (CpuFeature::Avx, xcr0 & XCR0_YMM == XCR0_YMM),
            State::Zmm => (CpuFeature::Avx512f, xcr0 & XCR0_ZMM == XCR0_ZMM),
        };
        if !saved {
            unsaved = unsaved.with(row.feature);
        } else if reported.contains(base) && reported.contains(CpuFeature::Avx) {
            features = features.with(row.feature);
        }
    }

    let mut notes = Vec::new();
    if !unsaved.is_empty() {
        notes.push(ProbeNote::NotSavedByOs(unsaved));
    }
    if leaves.l1.ecx & LEAF1_ECX_HYPERVISOR != 0 && !reported.contains(CpuFeature::Avx2) {
        notes.push(ProbeNote::MaskedByHypervisor);
    }
    CpuInfo { arch: Arch::X86_64, model: brand(cpu), features, notes }
}

/// The brand string of leaves 0x8000_0002 to 0x8000_0004.
fn brand(cpu: &impl X86Source) -> Option<String> {
    const FIRST: u32 = 0x8000_0002;
    const LAST: u32 = 0x8000_0004;
    if cpu.cpuid(0x8000_0000, 0).eax < LAST {
        return None;
    }
    let bytes: Vec<u8> = (FIRST..=LAST)
        .flat_map(|leaf| {
            let r = cpu.cpuid(leaf, 0);
            [r.eax, r.ebx, r.ecx, r.edx]
        })
        .flat_map(u32::to_le_bytes)
        .take_while(|&b| b != 0)
        .collect();
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}
