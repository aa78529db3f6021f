//! The Cargo features one by one: they choose what is compiled in, and a build with any of them, or none, is sound.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::proc;

/// The features that choose tiers and routes; with the empty one, none.
const FEATURES: [&str; 7] = ["", "avx2", "avx512", "neon", "dotprod", "i8mm", "blas"];

/// Lints the program and what it is made of with each feature alone, and looks at the tiers of a build without any.
///
/// # Errors
/// If a build has a warning, or one without features claims a tier.
pub(super) fn check() -> Result<()> {
    for feature in FEATURES {
        let mut cargo = proc::cargo();
        cargo.args(["clippy", "--quiet", "--package", "cera-cli"]).args(only(feature));
        proc::run(cargo.args(["--", "-D", "warnings"]))?;
    }
    let mut cargo = proc::cargo();
    cargo.args(["run", "--quiet", "--package", "cera-cli"]).args(only(""));
    judge(&proc::read(cargo.args(["--", "tiers", "--json"]))?)
}

fn only(feature: &str) -> [&str; 3] {
    ["--no-default-features", "--features", feature]
}

#[derive(Deserialize)]
struct Report {
    chosen: String,
    tiers: Vec<Tier>,
}

#[derive(Deserialize)]
struct Tier {
    label: String,
    available: bool,
}

/// Whether the report is one of a build without tiers.
fn judge(report: &str) -> Result<()> {
    let report: Report =
        serde_json::from_str(report).context("`cera tiers --json` printed something unknown")?;
    let available: Vec<&str> =
        report.tiers.iter().filter(|tier| tier.available).map(|tier| tier.label.as_str()).collect();
    if report.chosen != "scalar" || available != ["scalar"] {
        bail!("a build without features has the tiers {} and runs {}", available.join(", "), report.chosen);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_build_without_tiers_passes() {
        let report = |chosen: &str, avx2: bool| {
            format!(
                "{{\"chosen\": {chosen:?}, \"tiers\": [{{\"label\": \"scalar\", \"available\": true}}, \
                 {{\"label\": \"avx2\", \"available\": {avx2}}}]}}"
            )
        };
        assert!(judge(&report("scalar", false)).is_ok());
        assert!(judge(&report("scalar", true)).is_err());
        assert!(judge(&report("avx2", true)).is_err());
        assert!(judge("{}").is_err());
    }
}
