//! Probes of CPUs that are not there. Bits are named as in the manuals and are written down a second time here.

use super::aarch64::HwCaps;
use super::x86::{Cpuid, X86Source};
use super::*;

// CPUID.1:ECX
const FMA: u32 = 1 << 12;
const XSAVE: u32 = 1 << 26;
const OSXSAVE: u32 = 1 << 27;
const AVX: u32 = 1 << 28;
const F16C: u32 = 1 << 29;
const HYPERVISOR: u32 = 1 << 31;
// CPUID.(7,0):EBX
const AVX2: u32 = 1 << 5;
const AVX512F: u32 = 1 << 16;
const AVX512DQ: u32 = 1 << 17;
const AVX512BW: u32 = 1 << 30;
const AVX512VL: u32 = 1 << 31;
// CPUID.(7,0):ECX
const AVX512VBMI: u32 = 1 << 1;
const AVX512VNNI: u32 = 1 << 11;
// CPUID.(7,1):EAX
const AVXVNNI: u32 = 1 << 4;
const AVX512BF16: u32 = 1 << 5;
// XCR0
const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const YMM: u64 = 1 << 2;
const OPMASK: u64 = 1 << 5;
const ZMM_LOW: u64 = 1 << 6;
const ZMM_HIGH: u64 = 1 << 7;
const YMM_STATE: u64 = X87 | SSE | YMM;
const ZMM_STATE: u64 = YMM_STATE | OPMASK | ZMM_LOW | ZMM_HIGH;

/// An x86 CPU in numbers. It fails a test that asks what a real CPU must not be asked.
#[derive(Clone, Copy)]
struct Fake {
    highest: u32,
    l1_ecx: u32,
    l7_eax: u32,
    l7_ebx: u32,
    l7_ecx: u32,
    l7_1_eax: u32,
    xcr0: u64,
    brand: Option<&'static [u8; 48]>,
}

impl X86Source for Fake {
    fn cpuid(&self, leaf: u32, subleaf: u32) -> Cpuid {
        match (leaf, subleaf) {
            (0, 0) => Cpuid { eax: self.highest, ..Cpuid::default() },
            (0x8000_0000, 0) => Cpuid {
                eax: if self.brand.is_some() { 0x8000_0008 } else { 0x8000_0001 },
                ..Cpuid::default()
            },
            (0x8000_0002..=0x8000_0004, 0) => {
                let text = self.brand.expect("the CPU has no such leaf");
                let word = |i: usize| {
                    let at = (leaf as usize - 0x8000_0002) * 16 + i * 4;
                    u32::from_le_bytes(text[at..at + 4].try_into().expect("four bytes"))
                };
                Cpuid { eax: word(0), ebx: word(1), ecx: word(2), edx: word(3) }
            }
            _ if leaf > self.highest => panic!("leaf {leaf} of a CPU that ends at {}", self.highest),
            (1, 0) => Cpuid { ecx: self.l1_ecx, ..Cpuid::default() },
            (7, 0) => Cpuid { eax: self.l7_eax, ebx: self.l7_ebx, ecx: self.l7_ecx, edx: 0 },
            (7, 1) if self.l7_eax >= 1 => Cpuid { eax: self.l7_1_eax, ..Cpuid::default() },
            _ => panic!("leaf {leaf}, subleaf {subleaf}"),
        }
    }

    fn xcr0(&self) -> u64 {
        assert_ne!(self.l1_ecx & OSXSAVE, 0, "XGETBV faults on this CPU");
        self.xcr0
    }
}

const NEHALEM: Fake =
    Fake { highest: 11, l1_ecx: 0, l7_eax: 0, l7_ebx: 0, l7_ecx: 0, l7_1_eax: 0, xcr0: 0, brand: None };
const SANDY_BRIDGE: Fake = Fake { highest: 13, l1_ecx: XSAVE | OSXSAVE | AVX, xcr0: YMM_STATE, ..NEHALEM };
const HASWELL: Fake = Fake { l1_ecx: SANDY_BRIDGE.l1_ecx | FMA | F16C, l7_ebx: AVX2, ..SANDY_BRIDGE };
const SKYLAKE_X: Fake =
    Fake { highest: 22, l7_ebx: AVX2 | AVX512F | AVX512DQ | AVX512BW | AVX512VL, xcr0: ZMM_STATE, ..HASWELL };
const CASCADE_LAKE: Fake = Fake { l7_ecx: AVX512VNNI, ..SKYLAKE_X };
const ICE_LAKE: Fake = Fake { l7_ecx: AVX512VNNI | AVX512VBMI, ..SKYLAKE_X };
const ZEN4: Fake = Fake { l7_eax: 1, l7_1_eax: AVX512BF16, ..ICE_LAKE };
const ALDER_LAKE: Fake = Fake { highest: 32, l7_eax: 1, l7_1_eax: AVXVNNI, ..HASWELL };

const UP_TO_AVX2: &[&str] = &["avx", "avx2", "fma", "f16c"];
const UP_TO_512: &[&str] = &["avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"];

fn features(lists: &[&[&str]]) -> CpuFeatures {
    CpuFeatures::from_names(&lists.concat())
}

#[test]
fn x86_features_are_those_that_cpu_and_system_both_give() {
    let cases: &[(&str, Fake, CpuFeatures)] = &[
        ("nehalem", NEHALEM, CpuFeatures::NONE),
        ("sandy bridge", SANDY_BRIDGE, features(&[&["avx"]])),
        ("haswell", HASWELL, features(&[UP_TO_AVX2])),
        ("skylake x", SKYLAKE_X, features(&[UP_TO_512])),
        ("cascade lake: vnni without vbmi", CASCADE_LAKE, features(&[UP_TO_512, &["avx512vnni"]])),
        ("ice lake", ICE_LAKE, features(&[UP_TO_512, &["avx512vbmi", "avx512vnni"]])),
        ("zen 4", ZEN4, features(&[UP_TO_512, &["avx512vbmi", "avx512vnni", "avx512bf16"]])),
        ("alder lake: avx-vnni without avx-512", ALDER_LAKE, features(&[UP_TO_AVX2, &["avxvnni"]])),
        (
            "both kinds of vnni",
            Fake { l7_1_eax: AVXVNNI | AVX512BF16, ..ZEN4 },
            features(&[UP_TO_512, &["avx512vbmi", "avx512vnni", "avx512bf16", "avxvnni"]]),
        ),
        (
            "avx-512f without bw and vl",
            Fake { l7_ebx: AVX2 | AVX512F | AVX512DQ, ..SKYLAKE_X },
            features(&[UP_TO_AVX2, &["avx512f", "avx512dq"]]),
        ),
        (
            "vnni without vl",
            Fake { l7_ebx: CASCADE_LAKE.l7_ebx & !AVX512VL, ..CASCADE_LAKE },
            features(&[UP_TO_AVX2, &["avx512f", "avx512bw", "avx512dq", "avx512vnni"]]),
        ),
        (
            "avx-512 parts without avx-512f",
            Fake { l7_ebx: ICE_LAKE.l7_ebx & !AVX512F, ..ICE_LAKE },
            features(&[UP_TO_AVX2]),
        ),
        ("avx2 without avx", Fake { l1_ecx: HASWELL.l1_ecx & !AVX, ..ZEN4 }, CpuFeatures::NONE),
        (
            "the system does not save anything",
            Fake { l1_ecx: ZEN4.l1_ecx & !OSXSAVE, ..ZEN4 },
            CpuFeatures::NONE,
        ),
        ("the system saves xmm only", Fake { xcr0: X87 | SSE, ..ZEN4 }, CpuFeatures::NONE),
        ("the system saves ymm upper halves only", Fake { xcr0: X87 | YMM, ..ZEN4 }, CpuFeatures::NONE),
        ("the system saves ymm only", Fake { xcr0: YMM_STATE, ..ZEN4 }, features(&[UP_TO_AVX2])),
        (
            "the system does not save masks",
            Fake { xcr0: ZMM_STATE & !OPMASK, ..ZEN4 },
            features(&[UP_TO_AVX2]),
        ),
        (
            "the system does not save zmm16 to zmm31",
            Fake { xcr0: ZMM_STATE & !ZMM_HIGH, ..ZEN4 },
            features(&[UP_TO_AVX2]),
        ),
        ("leaf 7 is past the end", Fake { highest: 6, ..ZEN4 }, features(&[&["avx", "fma", "f16c"]])),
        ("leaf 1 is past the end", Fake { highest: 0, ..ZEN4 }, CpuFeatures::NONE),
        (
            "leaf 7 has no subleaf 1",
            Fake { l7_eax: 0, ..ZEN4 },
            features(&[UP_TO_512, &["avx512vbmi", "avx512vnni"]]),
        ),
        (
            "a hypervisor masks avx2",
            Fake { l1_ecx: HASWELL.l1_ecx | HYPERVISOR, l7_ebx: 0, ..HASWELL },
            features(&[&["avx", "fma", "f16c"]]),
        ),
    ];
    let mut wrong = Vec::new();
    for (name, fake, expected) in cases {
        let found = x86::decode(fake);
        assert_eq!(found.arch, Arch::X86_64);
        if found.features != *expected {
            wrong.push(format!("{name}: found {}, expected {expected}", found.features));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn notes_say_why_a_feature_is_not_there() {
    let masked = |fake: Fake| x86::decode(&Fake { l1_ecx: fake.l1_ecx | HYPERVISOR, ..fake }).notes;
    assert_eq!(x86::decode(&HASWELL).notes, []);
    assert_eq!(x86::decode(&NEHALEM).notes, []);
    assert_eq!(masked(HASWELL), []);
    assert_eq!(masked(SANDY_BRIDGE), [ProbeNote::MaskedByHypervisor]);
    assert_eq!(masked(NEHALEM), [ProbeNote::MaskedByHypervisor]);

    let unsaved = x86::decode(&Fake { xcr0: YMM_STATE, ..SKYLAKE_X }).notes;
    let lost = features(&[&["avx512f", "avx512bw", "avx512dq", "avx512vl"]]);
    assert_eq!(unsaved, [ProbeNote::NotSavedByOs(lost)]);
    assert_eq!(
        unsaved[0].to_string(),
        "the CPU has avx512f, avx512bw, avx512dq, avx512vl, but the operating system does not save the registers \
         they use"
    );
    assert!(ProbeNote::MaskedByHypervisor.to_string().contains("pass the host's CPU model through"));
}

#[test]
fn a_feature_counts_only_if_both_probes_see_it() {
    let asked = features(&[UP_TO_AVX2]);
    let info = x86::decode(&ALDER_LAKE);
    assert_eq!(info.clone().confirmed_by(asked, asked), info);
    assert_eq!(info.clone().confirmed_by(CpuFeatures::NONE, CpuFeatures::NONE), info);
    let doubted = info.clone().confirmed_by(asked, features(&[&["avx", "fma", "f16c", "avx512f"]]));
    assert_eq!(doubted.features, features(&[&["avx", "fma", "f16c", "avxvnni"]]));
    assert_eq!(doubted.notes, [ProbeNote::Unconfirmed(features(&[&["avx2"]]))]);
    assert!(doubted.notes[0].to_string().ends_with("disagree: avx2"));
}

#[test]
fn the_brand_is_read_where_there_is_one() {
    assert_eq!(x86::decode(&HASWELL).model, None);
    let named = Fake { brand: Some(b"  Example(R) CPU    E5-123 v3 @ 3.20GHz\0\0\0debris"), ..HASWELL };
    assert_eq!(x86::decode(&named).model.as_deref(), Some("Example(R) CPU E5-123 v3 @ 3.20GHz"));
    let blank = Fake { brand: Some(&[0; 48]), ..HASWELL };
    assert_eq!(x86::decode(&blank).model, None);
}

// AT_HWCAP and AT_HWCAP2, as the kernel prints them in /proc/cpuinfo.
const FP_ASIMD: u64 = 0b11;
const CORTEX_A53: HwCaps = HwCaps { hwcap: FP_ASIMD | 0xFC, hwcap2: 0 };
const NEOVERSE_N1: HwCaps = HwCaps { hwcap: CORTEX_A53.hwcap | 1 << 9 | 1 << 10 | 1 << 20, hwcap2: 0 };
const NEOVERSE_V1: HwCaps = HwCaps { hwcap: NEOVERSE_N1.hwcap | 1 << 22, hwcap2: 1 << 13 | 1 << 14 };

#[test]
fn aarch64_features_follow_the_capability_words() {
    let cases: &[(&str, HwCaps, &[&str])] = &[
        ("nothing", HwCaps { hwcap: 0, hwcap2: 0 }, &[]),
        ("cortex-a53", CORTEX_A53, &["neon"]),
        ("neoverse-n1", NEOVERSE_N1, &["neon", "fp16", "dotprod"]),
        ("neoverse-v1", NEOVERSE_V1, &["neon", "fp16", "dotprod", "i8mm", "bf16"]),
        ("i8mm without dotprod", HwCaps { hwcap: FP_ASIMD, hwcap2: 1 << 13 }, &["neon", "i8mm"]),
        ("dotprod without neon", HwCaps { hwcap: 1 << 20 | 1, hwcap2: 1 << 13 }, &[]),
        ("scalar half precision only", HwCaps { hwcap: FP_ASIMD | 1 << 9, hwcap2: 0 }, &["neon"]),
        (
            "the words are not mixed up",
            HwCaps { hwcap: FP_ASIMD | 1 << 13 | 1 << 14, hwcap2: 1 << 20 },
            &["neon"],
        ),
    ];
    for (name, caps, expected) in cases {
        let found = aarch64::decode(*caps);
        assert_eq!(found.features, CpuFeatures::from_names(expected), "{name}");
        assert_eq!(found.arch, Arch::Aarch64);
    }
}

#[test]
fn the_auxiliary_vector_is_read_to_its_end() {
    let auxv = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
    let caps = |hwcap, hwcap2| Some(HwCaps { hwcap, hwcap2 });
    assert_eq!(HwCaps::from_auxv(&auxv(&[6, 4096, 16, 0x8FF, 26, 0x2000, 0, 0])), caps(0x8FF, 0x2000));
    assert_eq!(HwCaps::from_auxv(&auxv(&[16, 3, 0, 0])), caps(3, 0));
    assert_eq!(HwCaps::from_auxv(&auxv(&[16, 3, 0, 0, 26, 0x2000])), caps(3, 0), "past the end");
    assert_eq!(HwCaps::from_auxv(&auxv(&[6, 16, 26, 16])), None, "values are not keys");
    assert_eq!(HwCaps::from_auxv(&auxv(&[16, 3, 26])), caps(3, 0), "cut short");
    assert_eq!(HwCaps::from_auxv(&[]), None);
}

/// A Darwin kernel in numbers and texts.
struct Kernel(&'static [(&'static str, u64)], Option<&'static str>);

impl darwin::Sysctl for Kernel {
    fn number(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.1.filter(|_| name == "machdep.cpu.brand_string").map(str::to_owned)
    }
}

#[test]
fn darwin_features_follow_the_names_that_are_set() {
    const NEW: &str = "hw.optional.arm.AdvSIMD";
    const FP16: &str = "hw.optional.arm.FEAT_FP16";
    const DOT: &str = "hw.optional.arm.FEAT_DotProd";
    const I8MM: &str = "hw.optional.arm.FEAT_I8MM";
    const BF16: &str = "hw.optional.arm.FEAT_BF16";
    let cases: &[(&str, Kernel, &[&str])] = &[
        ("nothing", Kernel(&[], None), &[]),
        (
            "m1",
            Kernel(&[(NEW, 1), (FP16, 1), (DOT, 1), (I8MM, 0), (BF16, 0)], None),
            &["neon", "fp16", "dotprod"],
        ),
        (
            "m2",
            Kernel(&[(NEW, 1), (FP16, 1), (DOT, 1), (I8MM, 1), (BF16, 1)], None),
            &["neon", "fp16", "dotprod", "i8mm", "bf16"],
        ),
        ("a name is missing", Kernel(&[(NEW, 1), (I8MM, 1)], None), &["neon", "i8mm"]),
        (
            "macOS 11",
            Kernel(&[("hw.optional.neon", 1), ("hw.optional.neon_fp16", 1)], None),
            &["neon", "fp16"],
        ),
        (
            "the name between both",
            Kernel(&[("hw.optional.AdvSIMD", 1), (DOT, 1)], None),
            &["neon", "dotprod"],
        ),
        ("neon denied", Kernel(&[(NEW, 0), (DOT, 1), (I8MM, 1)], None), &[]),
    ];
    for (name, kernel, expected) in cases {
        let found = darwin::decode(kernel);
        assert_eq!(found.features, CpuFeatures::from_names(expected), "{name}");
        assert_eq!((found.arch, found.model), (Arch::Aarch64, None));
    }
    assert_eq!(darwin::decode(&Kernel(&[], Some("Example M9"))).model.as_deref(), Some("Example M9"));
    assert_eq!(darwin::decode(&Kernel(&[], Some(""))).model, None);
}

#[test]
fn the_native_probe_answers_for_this_target() {
    let found = native();
    let host = [Arch::X86_64, Arch::Aarch64].into_iter().find(|a| a.name() == std::env::consts::ARCH);
    assert_eq!(found.arch, host.unwrap_or(Arch::Other));
    assert!(std::ptr::eq(found, native()));
}
