//! Which tiers exist and which of them can run, as `cera tiers --json` tells.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::TIER_VAR;
use super::platform::{Arch, Platform};
use crate::proc;

/// Whether this machine has all of these features; `false` on other architectures than the one named.
macro_rules! machine_has {
    ($arch:tt, $detected:ident: $($feature:tt)*) => {{
        #[cfg(target_arch = $arch)]
        let has = true $(&& std::arch::$detected!($feature))*;
        #[cfg(not(target_arch = $arch))]
        let has = false;
        has
    }};
}

/// What xtask knows of a tier without the engine.
struct Known {
    label: &'static str,
    /// The architecture; `None` if the tier runs on every one.
    arch: Option<Arch>,
    /// Whether this machine can run it.
    here: fn() -> bool,
}

const fn x86(label: &'static str, here: fn() -> bool) -> Known {
    Known { label, arch: Some(Arch::X86_64), here }
}

const fn aarch64(label: &'static str, here: fn() -> bool) -> Known {
    Known { label, arch: Some(Arch::Aarch64), here }
}

/// Every tier, in the order of the engine, which is held against it. A new tier is added here.
const KNOWN: [Known; 7] = [
    Known { label: "scalar", arch: None, here: || true },
    x86("avx2", || machine_has!("x86_64", is_x86_feature_detected: "avx2" "fma" "f16c")),
    x86("avx512vnni", || {
        machine_has!("x86_64", is_x86_feature_detected:
            "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512vbmi")
    }),
    x86("avx512bf16", || {
        machine_has!("x86_64", is_x86_feature_detected:
            "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512vbmi" "avx512bf16")
    }),
    aarch64("neon", || machine_has!("aarch64", is_aarch64_feature_detected: "neon")),
    aarch64("neon-dotprod", || machine_has!("aarch64", is_aarch64_feature_detected: "neon" "dotprod")),
    aarch64("neon-i8mm", || machine_has!("aarch64", is_aarch64_feature_detected: "neon" "dotprod" "i8mm")),
];

/// The tiers of an architecture.
fn tiers_of(arch: Arch) -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().filter(move |tier| tier.arch.is_none_or(|of| of == arch))
}

/// Checks the labels that were asked for before anything is built.
///
/// # Errors
/// If one is none of a tier of this architecture.
pub(super) fn check_labels(asked: &[String], arch: Arch) -> Result<()> {
    for label in asked {
        let Some(tier) = KNOWN.iter().find(|tier| tier.label == label) else {
            let labels: Vec<&str> = KNOWN.iter().map(|tier| tier.label).collect();
            bail!("there is no tier {label:?}; tiers are {}", labels.join(", "));
        };
        if let Some(of) = tier.arch.filter(|&of| of != arch) {
            bail!(
                "{label} is a tier of {of}, not of {arch}: run with --arch {of}",
                of = of.name(),
                arch = arch.name()
            );
        }
    }
    Ok(())
}

/// A tier in the report of the engine.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tier {
    /// The name that `CERA_CPU_TIER` takes.
    pub(crate) label: String,
    /// Whether this processor and this build have it.
    pub(crate) available: bool,
}

#[derive(Deserialize)]
struct Report {
    tiers: Vec<Tier>,
    kernels: Vec<String>,
}

fn report(platform: &Platform, cera: &Path, tier: &str) -> Result<Report> {
    let mut command = platform.command(cera, tier);
    command.env_remove(TIER_VAR).args(["tiers", "--json"]);
    if !tier.is_empty() {
        command.env(TIER_VAR, tier);
    }
    serde_json::from_str(&proc::read(&mut command)?).context("cannot read the answer of `cera tiers --json`")
}

/// Asks the engine, under an emulator on the processor with everything.
///
/// # Errors
/// If it cannot be run or its answer cannot be read.
pub(crate) fn query(platform: &Platform, cera: &Path) -> Result<Vec<Tier>> {
    Ok(report(platform, cera, "")?.tiers)
}

/// The kernels in the table of a tier, those that it takes from lower tiers included.
///
/// # Errors
/// As [`query`].
pub(super) fn kernels(platform: &Platform, cera: &Path, tier: &str) -> Result<Vec<String>> {
    Ok(report(platform, cera, tier)?.kernels)
}

/// The tiers that this machine, or the emulated one with everything, can run. The engine is not asked: the list stands
/// against a probe of the CPU that finds too little or too much.
fn expected(platform: &Platform) -> Vec<&'static str> {
    let runs = |tier: &&Known| platform.is_emulated() || (tier.here)();
    tiers_of(platform.arch()).filter(runs).map(|tier| tier.label).collect()
}

/// The tiers of this architecture that this machine cannot run.
pub(super) fn lacking(platform: &Platform) -> Vec<&'static str> {
    let expected = expected(platform);
    tiers_of(platform.arch()).map(|tier| tier.label).filter(|label| !expected.contains(label)).collect()
}

/// What the engine says about its tiers and what xtask expects of this machine, as one fault per tier.
pub(super) fn departures(known: &[Tier], platform: &Platform) -> Vec<String> {
    let mut faults = compare(known, &expected(platform));
    let labels: Vec<&str> = known.iter().map(|tier| tier.label.as_str()).collect();
    let expected = KNOWN.map(|tier| tier.label);
    if labels != expected {
        faults.push(format!(
            "the engine has the tiers {}, but xtask/src/test/tiers.rs knows {}",
            labels.join(", "),
            expected.join(", ")
        ));
    }
    faults
}

fn compare(known: &[Tier], expected: &[&str]) -> Vec<String> {
    let available = |label: &str| known.iter().any(|tier| tier.available && tier.label == label);
    let lost = expected
        .iter()
        .filter(|label| !available(label))
        .map(|label| format!("tier {label} should run here, but the engine does not call it available"));
    let unexpected = known.iter().filter(|tier| tier.available && !expected.contains(&tier.label.as_str()));
    let unexpected = unexpected.map(|tier| {
        format!(
            "the engine calls tier {} available, but xtask/src/test/tiers.rs does not expect it here",
            tier.label
        )
    });
    lost.chain(unexpected).collect()
}

/// The tiers that were asked for, or all available ones if none was.
///
/// # Errors
/// If one that was asked for does not exist.
pub(crate) fn choose<'t>(known: &'t [Tier], asked: &[String]) -> Result<Vec<&'t Tier>> {
    if asked.is_empty() {
        return Ok(known.iter().filter(|tier| tier.available).collect());
    }
    let mut chosen = Vec::new();
    for label in asked {
        let Some(tier) = known.iter().find(|tier| tier.label == *label) else {
            let labels: Vec<&str> = known.iter().map(|tier| tier.label.as_str()).collect();
            bail!("there is no tier {label:?}; tiers are {}", labels.join(", "));
        };
        chosen.push(tier);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Tier> {
        let text = r#"{"chosen":"avx2","tiers":[{"label":"scalar","available":true,"missing":[]},
            {"label":"avx2","available":true},{"label":"neon","available":false}],
            "kernels":["avx2-gemm-f32xf32-16x6","scalar-rope-f32"]}"#;
        serde_json::from_str::<Report>(text).expect("report").tiers
    }

    #[test]
    fn without_a_wish_all_available_tiers_are_chosen() {
        let known = known();
        let chosen: Vec<_> = choose(&known, &[]).expect("tiers").iter().map(|tier| &tier.label).collect();
        assert_eq!(chosen, ["scalar", "avx2"]);
    }

    #[test]
    fn the_engine_and_the_expectation_are_held_against_each_other() {
        assert_eq!(compare(&known(), &["scalar", "avx2"]), Vec::<String>::new());
        assert_eq!(
            compare(&known(), &["scalar", "avx2", "neon"]),
            ["tier neon should run here, but the engine does not call it available"]
        );
        let [fault] = &compare(&known(), &["scalar"])[..] else { panic!("one fault") };
        assert!(fault.starts_with("the engine calls tier avx2 available"), "{fault}");
    }

    #[test]
    fn labels_are_checked_without_the_engine() {
        let check = |labels: &[&str], arch| {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            check_labels(&labels, arch).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["scalar", "avx2", "avx512bf16"], Arch::X86_64), Ok(()));
        assert_eq!(check(&["scalar", "neon", "neon-dotprod", "neon-i8mm"], Arch::Aarch64), Ok(()));
        let tiers = "scalar, avx2, avx512vnni, avx512bf16, neon, neon-dotprod, neon-i8mm";
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for label in ["foo", "", "AVX2", "neon_i8mm"] {
                let expected = Err(format!("there is no tier {label:?}; tiers are {tiers}"));
                assert_eq!(check(&["scalar", label], arch), expected);
            }
        }
        let foreign = check(&["neon"], Arch::X86_64);
        assert_eq!(foreign, Err("neon is a tier of aarch64, not of x86_64: run with --arch aarch64".into()));
    }

    #[test]
    fn an_emulated_processor_has_every_tier_of_its_architecture() {
        let labels = |arch| tiers_of(arch).map(|tier| tier.label).collect::<Vec<_>>();
        assert_eq!(labels(Arch::X86_64), ["scalar", "avx2", "avx512vnni", "avx512bf16"]);
        assert_eq!(labels(Arch::Aarch64), ["scalar", "neon", "neon-dotprod", "neon-i8mm"]);
    }

    #[test]
    fn a_tier_that_was_asked_for_is_kept_even_if_it_cannot_run() {
        let known = known();
        let chosen = choose(&known, &["neon".into()]).expect("tiers");
        assert!(!chosen[0].available);
        assert!(
            choose(&known, &["banana".into()])
                .expect_err("unknown")
                .to_string()
                .contains("scalar, avx2, neon")
        );
    }
}
