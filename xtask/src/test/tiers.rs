//! Which tiers exist and which of them can run, as `cera tiers --json` tells.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::TIER_VAR;
use super::platform::{Arch, Platform};
use crate::proc;

/// Whether this machine has all of these features; `false` on other architectures than x86-64.
macro_rules! machine_has {
    ($($feature:tt)*) => {{
        #[cfg(target_arch = "x86_64")]
        let has = true $(&& std::arch::is_x86_feature_detected!($feature))*;
        #[cfg(not(target_arch = "x86_64"))]
        let has = false;
        has
    }};
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

/// The tiers that have kernels and that this machine, or the emulated one with everything, can run. The engine is not
/// asked: the list stands against a probe of the CPU that finds too little or too much. A new tier is added here.
fn expected(arch: Arch) -> Vec<&'static str> {
    let tiers: &[(&str, bool)] = match arch {
        Arch::X86_64 => &[
            ("scalar", true),
            ("avx2", machine_has!("avx2" "fma" "f16c")),
            (
                "avx512vnni",
                machine_has!("avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512vbmi"),
            ),
            (
                "avx512bf16",
                machine_has!("avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512vbmi" "avx512bf16"),
            ),
        ],
        Arch::Aarch64 => &[("scalar", true)],
    };
    tiers.iter().filter(|(_, here)| *here).map(|(label, _)| *label).collect()
}

/// What the engine says about its tiers and what xtask expects of this machine, as one fault per tier.
pub(super) fn departures(known: &[Tier], arch: Arch) -> Vec<String> {
    compare(known, &expected(arch))
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
