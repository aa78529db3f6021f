use super::choice::join_gaps;
use super::*;
use crate::backends::Build;
use crate::features::CpuFeature;
use crate::probe::{CpuInfo, ProbeNote};

const AVX2: &[&str] = &["avx", "avx2", "fma", "f16c"];
const AVX512: &[&str] = &["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi"];

/// A build for x86-64 or AArch64 with kernels for every tier.
fn full(arch: Arch) -> Build {
    const ALL_ON: &[(&str, bool)] =
        &[("avx2", true), ("avx512", true), ("neon", true), ("dotprod", true), ("i8mm", true)];
    Build { arch, implemented: &CpuTier::ALL, cargo_features: ALL_ON, passes_self_test: |_| true }
}

fn cpu(arch: Arch, lists: &[&[&str]]) -> CpuInfo {
    let features = CpuFeatures::from_names(&lists.concat());
    CpuInfo { arch, model: None, features, notes: Vec::<ProbeNote>::new() }
}

const FORCED: TierReason = TierReason::ForcedBy { variable: "CERA_CPU_TIER" };

/// What `CERA_CPU_TIER=label` does on this CPU with this build.
fn force(label: &str, cpu: &CpuInfo, build: &Build) -> Result<CpuTier, String> {
    let tier = label.parse::<CpuTier>().map_err(|e| e.to_string())?;
    TierChoice::select(Some((tier, FORCED)), cpu, build).map(|c| c.tier()).map_err(|e| e.to_string())
}

#[test]
fn labels_lead_back_and_nothing_else_does() {
    let labels = ["scalar", "avx2", "avx512vnni", "avx512bf16", "neon", "neon-dotprod", "neon-i8mm"];
    assert_eq!(CpuTier::ALL.map(CpuTier::label), labels);
    for tier in CpuTier::ALL {
        assert_eq!(tier.label().parse(), Ok(tier));
        assert_eq!(CpuTier::ALL[tier as usize], tier);
    }
    for wrong in ["", "banana", "AVX2", "avx512_vnni", " avx2", "avx2 ", "scalar,avx2", "neon_dotprod"] {
        let error = wrong.parse::<CpuTier>().unwrap_err();
        assert_eq!(error, TierError::Unknown { label: wrong.to_owned() });
        let expected = format!("{wrong:?} is not a CPU tier; the tiers are {}", labels.join(", "));
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn every_chain_of_fallbacks_ends_at_scalar() {
    let chain = |tier: CpuTier| {
        std::iter::successors(Some(tier), |t| t.lower()).map(CpuTier::label).collect::<Vec<_>>()
    };
    assert_eq!(chain(CpuTier::Avx512Bf16), ["avx512bf16", "avx512vnni", "avx2", "scalar"]);
    assert_eq!(chain(CpuTier::NeonI8mm), ["neon-i8mm", "neon-dotprod", "neon", "scalar"]);
    for tier in CpuTier::ALL {
        let Some(lower) = tier.lower() else {
            assert_eq!(tier, CpuTier::Scalar);
            continue;
        };
        assert!(tier.required().contains_all(lower.required()), "{tier} can run what {lower} can");
        assert_ne!(tier.required(), lower.required());
        assert!((lower as usize) < tier as usize, "later tiers are preferred");
        assert!(lower.arch().is_none_or(|arch| Some(arch) == tier.arch()));
        assert!(tier.cargo_feature().is_some());
    }
}

#[test]
fn required_features_are_these() {
    assert!(CpuTier::Scalar.required().is_empty());
    assert_eq!(CpuTier::Avx2.required(), CpuFeatures::from_names(AVX2));
    let vnni = CpuFeatures::from_names(&[AVX2, AVX512, &["avx512vnni"]].concat());
    assert_eq!(CpuTier::Avx512Vnni.required(), vnni);
    assert_eq!(CpuTier::Avx512Bf16.required(), vnni.with(CpuFeature::Avx512bf16));
    assert_eq!(CpuTier::NeonI8mm.required(), CpuFeatures::from_names(&["neon", "dotprod", "i8mm"]));
}

#[test]
fn the_best_tier_is_the_highest_whose_every_feature_is_there() {
    let x86: &[(&str, &[&[&str]], CpuTier)] = &[
        ("nothing", &[], CpuTier::Scalar),
        ("avx only", &[&["avx"]], CpuTier::Scalar),
        ("avx2 without fma", &[&["avx", "avx2", "f16c"]], CpuTier::Scalar),
        ("haswell", &[AVX2], CpuTier::Avx2),
        ("avx-vnni without avx-512", &[AVX2, &["avxvnni"]], CpuTier::Avx2),
        ("avx-512f without bw and vl", &[AVX2, &["avx512f", "avx512dq"]], CpuTier::Avx2),
        ("avx-512 without vnni", &[AVX2, AVX512], CpuTier::Avx2),
        (
            "vnni without vl",
            &[AVX2, &["avx512f", "avx512bw", "avx512dq", "avx512vbmi", "avx512vnni"]],
            CpuTier::Avx2,
        ),
        (
            "vnni without vbmi",
            &[AVX2, &["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"]],
            CpuTier::Avx2,
        ),
        ("avx-512 vnni without avx-vnni", &[AVX2, AVX512, &["avx512vnni"]], CpuTier::Avx512Vnni),
        ("both kinds of vnni", &[AVX2, AVX512, &["avx512vnni", "avxvnni"]], CpuTier::Avx512Vnni),
        ("zen 4", &[AVX2, AVX512, &["avx512vnni", "avx512bf16"]], CpuTier::Avx512Bf16),
        ("bf16 without vnni", &[AVX2, AVX512, &["avx512bf16"]], CpuTier::Avx2),
        ("avx-512 with avx2 masked", &[&["avx", "fma", "f16c"], AVX512, &["avx512vnni"]], CpuTier::Scalar),
    ];
    let arm: &[(&str, &[&[&str]], CpuTier)] = &[
        ("cortex-a53", &[&["neon"]], CpuTier::Neon),
        ("neoverse-n1", &[&["neon", "fp16", "dotprod"]], CpuTier::NeonDotprod),
        ("neoverse-v1", &[&["neon", "fp16", "dotprod", "i8mm", "bf16"]], CpuTier::NeonI8mm),
        ("i8mm without dotprod", &[&["neon", "i8mm"]], CpuTier::Neon),
        ("no neon", &[], CpuTier::Scalar),
    ];
    for (arch, cases) in [(Arch::X86_64, x86), (Arch::Aarch64, arm)] {
        for &(name, lists, expected) in cases {
            let cpu = cpu(arch, lists);
            let choice = TierChoice::select(None, &cpu, &full(arch)).unwrap();
            assert_eq!(choice.tier(), expected, "{name}");
            assert_eq!(choice.reason(), TierReason::BestAvailable);
            assert!(cpu.features.contains_all(choice.tier().required()), "{name}");
        }
    }
}

/// Whatever is detected, built and asked for: the chosen tier needs nothing that is not there, and a forced tier is
/// either taken or refused with a reason.
#[test]
fn no_choice_needs_more_than_there_is() {
    for arch in [Arch::X86_64, Arch::Aarch64, Arch::Other] {
        let own: Vec<CpuFeature> = CpuTier::ALL
            .iter()
            .filter(|t| t.arch() == Some(arch))
            .flat_map(|t| t.required().iter())
            .collect();
        let own: Vec<CpuFeature> = own.into_iter().collect::<CpuFeatures>().iter().collect();
        for bits in 0..1u32 << own.len() {
            let features =
                own.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, &f)| f).collect();
            check_every_choice(&CpuInfo { arch, model: None, features, notes: Vec::new() });
        }
    }
}

fn check_every_choice(cpu: &CpuInfo) {
    let (features, build) = (cpu.features, full(cpu.arch));
    let runs = |t: CpuTier| t.arch().is_none_or(|a| a == cpu.arch) && features.contains_all(t.required());
    let best = TierChoice::select(None, cpu, &build).unwrap().tier();
    assert!(runs(best), "{best} on {features}");
    assert!(CpuTier::ALL.into_iter().all(|t| !runs(t) || t <= best), "{best} on {features}");
    for asked in CpuTier::ALL {
        match TierChoice::select(Some((asked, FORCED)), cpu, &build) {
            Ok(choice) => assert!(choice.tier() == asked && runs(asked)),
            Err(TierError::Unavailable { tier, gaps, .. }) => {
                assert!(tier == asked && !runs(asked) && !gaps.is_empty());
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_forced_tier_runs_or_is_refused_with_everything_it_lacks() {
    let haswell = cpu(Arch::X86_64, &[AVX2]);
    let build = full(Arch::X86_64);
    assert_eq!(force("scalar", &haswell, &build), Ok(CpuTier::Scalar));
    assert_eq!(force("avx2", &haswell, &build), Ok(CpuTier::Avx2));
    let refused = |label: &str, why: &str, usable: &str| {
        Err(format!(
            "the CPU tier {label}, forced by CERA_CPU_TIER, cannot run: {why}; usable here: {usable}"
        ))
    };
    assert_eq!(
        force("avx512vnni", &haswell, &build),
        refused(
            "avx512vnni",
            "this CPU lacks avx512f, avx512bw, avx512dq, avx512vl, avx512vbmi, avx512vnni",
            "scalar, avx2"
        )
    );
    assert_eq!(
        force("neon", &haswell, &build),
        refused("neon", "it is for aarch64 and this is x86_64", "scalar, avx2")
    );
    let n1 = cpu(Arch::Aarch64, &[&["neon", "dotprod"]]);
    assert_eq!(
        force("neon-i8mm", &n1, &full(Arch::Aarch64)),
        refused("neon-i8mm", "this CPU lacks i8mm", "scalar, neon, neon-dotprod")
    );

    let narrow = Build { cargo_features: &[("avx2", true), ("avx512", false)], ..build };
    let zen4 = cpu(Arch::X86_64, &[AVX2, AVX512, &["avx512vnni", "avx512bf16"]]);
    let not_compiled = "this build lacks the Cargo feature `avx512`";
    assert_eq!(force("avx512bf16", &zen4, &narrow), refused("avx512bf16", not_compiled, "scalar, avx2"));
    let both = format!("{not_compiled}, and this CPU lacks avx512bf16");
    let ice_lake = cpu(Arch::X86_64, &[AVX2, AVX512, &["avx512vnni"]]);
    assert_eq!(force("avx512bf16", &ice_lake, &narrow), refused("avx512bf16", &both, "scalar, avx2"));
    assert_eq!(TierChoice::select(None, &zen4, &narrow).unwrap().tier(), CpuTier::Avx2);

    let early = Build { implemented: &[CpuTier::Scalar], ..build };
    let no_kernels = "this version of cera has no kernels for it";
    assert_eq!(force("avx2", &haswell, &early), refused("avx2", no_kernels, "scalar"));
    assert_eq!(TierChoice::select(None, &zen4, &early).unwrap().tier(), CpuTier::Scalar);
}

/// The tier below runs in its place, and the reason is told. What the CPU lacks is not tested.
#[test]
fn a_tier_whose_instructions_fail_their_test_is_not_taken() {
    let build = Build { passes_self_test: |tier| tier != CpuTier::Avx512Bf16, ..full(Arch::X86_64) };
    let zen4 = cpu(Arch::X86_64, &[AVX2, AVX512, &["avx512vnni", "avx512bf16"]]);
    let choice = TierChoice::select(None, &zen4, &build).unwrap();
    assert_eq!(choice.tier(), CpuTier::Avx512Vnni);
    let lacks = "its instructions failed their self-test on this CPU";
    assert_eq!(choice.statuses()[CpuTier::Avx512Bf16 as usize].lacks(), lacks);
    assert_eq!(
        force("avx512bf16", &zen4, &build),
        Err(format!(
            "the CPU tier avx512bf16, forced by CERA_CPU_TIER, cannot run: {lacks}; usable here: scalar, avx2, avx512vnni"
        ))
    );
    let ice_lake = cpu(Arch::X86_64, &[AVX2, AVX512, &["avx512vnni"]]);
    let lacks =
        TierChoice::select(None, &ice_lake, &build).unwrap().statuses()[CpuTier::Avx512Bf16 as usize].lacks();
    assert_eq!(lacks, "this CPU lacks avx512bf16");
}

#[test]
fn a_choice_says_what_every_other_tier_lacks() {
    let cascade_lake =
        cpu(Arch::X86_64, &[AVX2, &["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"]]);
    let choice =
        TierChoice::select(Some((CpuTier::Scalar, FORCED)), &cascade_lake, &full(Arch::X86_64)).unwrap();
    assert_eq!(choice.tier(), CpuTier::Scalar);
    assert_eq!(choice.reason().to_string(), "forced by CERA_CPU_TIER");
    let lacks: Vec<(&str, String)> = choice.statuses().iter().map(|s| (s.tier.label(), s.lacks())).collect();
    let expected = [
        ("scalar", ""),
        ("avx2", ""),
        ("avx512vnni", "this CPU lacks avx512vbmi"),
        ("avx512bf16", "this CPU lacks avx512vbmi, avx512bf16"),
        ("neon", "it is for aarch64 and this is x86_64"),
        ("neon-dotprod", "it is for aarch64 and this is x86_64"),
        ("neon-i8mm", "it is for aarch64 and this is x86_64"),
    ];
    assert_eq!(lacks, expected.map(|(label, text)| (label, text.to_owned())));
    assert_eq!(join_gaps(&[]), "");
}

#[test]
fn this_build_names_every_cargo_feature_that_a_tier_has() {
    let build = Build::this(Arch::X86_64);
    for feature in CpuTier::ALL.into_iter().filter_map(CpuTier::cargo_feature) {
        assert!(build.cargo_features.iter().any(|&(name, _)| name == feature), "{feature}");
    }
    assert!(build.implemented.contains(&CpuTier::Scalar));
}

#[test]
fn scalar_can_always_be_had() {
    assert_eq!(TierChoice::of(CpuTier::Scalar).unwrap().tier(), CpuTier::Scalar);
    let foreign =
        CpuTier::ALL.into_iter().find(|t| t.arch().is_some_and(|a| a.name() != std::env::consts::ARCH));
    let error = TierChoice::of(foreign.unwrap()).unwrap_err();
    assert!(error.to_string().contains("asked for by the program"), "{error}");
}
