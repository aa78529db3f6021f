//! The x86-64 CPU of this process.

use std::arch::x86_64::{__cpuid_count, _xgetbv};

use crate::features::{CpuFeature, CpuFeatures};
use crate::probe::CpuInfo;
use crate::probe::x86::{self, Cpuid, X86Source};

struct Cpu;

impl X86Source for Cpu {
    fn cpuid(&self, leaf: u32, subleaf: u32) -> Cpuid {
        let r = __cpuid_count(leaf, subleaf);
        Cpuid { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx }
    }

    fn xcr0(&self) -> u64 {
        // SAFETY: `X86Source::xcr0` is called only where CPUID says that the operating system enabled XGETBV.
        unsafe { xgetbv() }
    }
}

/// # Safety
/// CPUID leaf 1 has OSXSAVE set.
#[target_feature(enable = "xsave")]
unsafe fn xgetbv() -> u64 {
    // SAFETY: register 0 exists wherever XGETBV does, and the caller vouches for that.
    unsafe { _xgetbv(0) }
}

/// Asks CPUID, and takes the word of the `cpufeatures` crate where it has one.
pub(in crate::probe) fn detect() -> CpuInfo {
    let (asked, seen) = second_opinion();
    x86::decode(&Cpu).confirmed_by(asked, seen)
}

macro_rules! second_opinion {
    ($($module:ident: $variant:ident = $name:tt;)*) => {
        $(cpufeatures::new!($module, $name);)*

        /// The features that `cpufeatures` can detect, and those that it does.
        fn second_opinion() -> (CpuFeatures, CpuFeatures) {
            let answers = [$((CpuFeature::$variant, $module::get()),)*];
            let asked = answers.iter().map(|&(feature, _)| feature).collect();
            (asked, answers.iter().filter(|&&(_, seen)| seen).map(|&(feature, _)| feature).collect())
        }
    };
}

second_opinion! {
    cpu_avx: Avx = "avx";
    cpu_avx2: Avx2 = "avx2";
    cpu_fma: Fma = "fma";
    cpu_avx512f: Avx512f = "avx512f";
    cpu_avx512bw: Avx512bw = "avx512bw";
    cpu_avx512dq: Avx512dq = "avx512dq";
    cpu_avx512vl: Avx512vl = "avx512vl";
    cpu_avx512vbmi: Avx512vbmi = "avx512vbmi";
}

#[cfg(test)]
mod tests {
    use std::arch::is_x86_feature_detected as std_has;

    use super::*;

    /// The standard library detects by code of its own; both must agree on whatever CPU runs the tests.
    #[test]
    fn the_probe_agrees_with_the_standard_library() {
        let expected: CpuFeatures = [
            (CpuFeature::Avx, std_has!("avx")),
            (CpuFeature::Avx2, std_has!("avx2")),
            (CpuFeature::Fma, std_has!("fma")),
            (CpuFeature::F16c, std_has!("f16c")),
            (CpuFeature::AvxVnni, std_has!("avxvnni")),
            (CpuFeature::Avx512f, std_has!("avx512f")),
            (CpuFeature::Avx512bw, std_has!("avx512bw")),
            (CpuFeature::Avx512dq, std_has!("avx512dq")),
            (CpuFeature::Avx512vl, std_has!("avx512vl")),
            (CpuFeature::Avx512vbmi, std_has!("avx512vbmi")),
            (CpuFeature::Avx512vnni, std_has!("avx512vnni")),
            (CpuFeature::Avx512bf16, std_has!("avx512bf16")),
        ]
        .into_iter()
        .filter_map(|(feature, present)| present.then_some(feature))
        .collect();
        let found = detect();
        assert_eq!(found.features, expected, "{found:?}");
    }

    #[test]
    fn cpufeatures_confirms_what_cpuid_says() {
        let found = detect();
        assert!(
            !found.notes.iter().any(|n| matches!(n, crate::probe::ProbeNote::Unconfirmed(_))),
            "{found:?}"
        );
    }
}
