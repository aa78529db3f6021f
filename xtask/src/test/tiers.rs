//! Which tiers exist and which of them can run, as `cera tiers --json` tells.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::TIER_VAR;
use super::platform::Platform;
use crate::proc;

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
}

/// Asks the engine, under an emulator on the processor with everything.
///
/// # Errors
/// If it cannot be run or its answer cannot be read.
pub(crate) fn query(platform: &Platform, cera: &Path) -> Result<Vec<Tier>> {
    let mut command = platform.command(cera, "");
    let text = proc::read(command.env_remove(TIER_VAR).args(["tiers", "--json"]))?;
    let report: Report =
        serde_json::from_str(&text).context("cannot read the answer of `cera tiers --json`")?;
    Ok(report.tiers)
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
            {"label":"avx2","available":true},{"label":"neon","available":false}]}"#;
        serde_json::from_str::<Report>(text).expect("report").tiers
    }

    #[test]
    fn without_a_wish_all_available_tiers_are_chosen() {
        let known = known();
        let chosen: Vec<_> = choose(&known, &[]).expect("tiers").iter().map(|tier| &tier.label).collect();
        assert_eq!(chosen, ["scalar", "avx2"]);
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
