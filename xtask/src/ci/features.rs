//! The Cargo features one by one: they choose what is compiled in, and a build with any of them, or none, is sound.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::proc;

/// The features that choose tiers and routes; with the empty one, none.
const FEATURES: [&str; 7] = ["", "avx2", "avx512", "neon", "dotprod", "i8mm", "blas"];
/// The features of x86-64, each of which brings in those before it: builds with them are asked for their tiers.
const ASKED: [&str; 3] = ["", "avx2", "avx512"];

/// Lints the program and what it is made of with each feature alone, and looks at the tiers that builds with some have.
///
/// # Errors
/// If a build has a warning, or has other tiers than its features say.
pub(super) fn check() -> Result<()> {
    for feature in FEATURES {
        let mut cargo = proc::cargo();
        cargo.args(["clippy", "--quiet", "--package", "cera-cli"]).args(only(feature));
        proc::run(cargo.args(["--", "-D", "warnings"]))?;
    }
    for (i, feature) in ASKED.into_iter().enumerate() {
        let mut cargo = proc::cargo();
        cargo.args(["run", "--quiet", "--package", "cera-cli"]).args(only(feature));
        judge(&proc::read(cargo.args(["--", "tiers", "--json"]))?, &ASKED[1..=i])?;
    }
    Ok(())
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
    lacks: String,
}

impl Tier {
    /// Whether a build with the features `on` and no others may say this of an x86-64 tier: that the build lacks the feature
    /// of the tier if and only if it is not on. Tiers without kernels and those of other machines are absent anyhow.
    fn fits(&self, on: &[&str]) -> bool {
        let feature = if self.label.starts_with("avx512") { "avx512" } else { "avx2" };
        let not_compiled = self.lacks.contains(&format!("this build lacks the Cargo feature `{feature}`"));
        let absent_anyhow =
            self.lacks.starts_with("it is for ") || self.lacks.contains("has no kernels for it");
        let told = absent_anyhow || not_compiled != on.contains(&feature);
        told && self.available == self.lacks.is_empty()
    }
}

/// Whether the report is one of a build with the features `on` and no others.
fn judge(report: &str, on: &[&str]) -> Result<()> {
    let report: Report =
        serde_json::from_str(report).context("`cera tiers --json` printed something unknown")?;
    let mut of_x86 = report.tiers.iter().filter(|tier| tier.label.starts_with("avx"));
    if let Some(Tier { label, lacks, .. }) = of_x86.find(|tier| !tier.fits(on)) {
        bail!("a build with the features {on:?} says of the tier {label} that it lacks {lacks:?}");
    }
    let available: Vec<&str> =
        report.tiers.iter().filter(|tier| tier.available).map(|tier| tier.label.as_str()).collect();
    if available.first() != Some(&"scalar") || !available.contains(&report.chosen.as_str()) {
        bail!("a build with the features {on:?} has the tiers {available:?} and runs {}", report.chosen);
    }
    if on.is_empty() && available != ["scalar"] {
        bail!("a build without features has the tiers {available:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: &str = "this build lacks the Cargo feature `avx512`";

    /// What a build with `avx2` alone says, with this about the tiers of AVX2 and AVX-512.
    fn verdict(chosen: &str, avx2: (bool, &str), avx512: (bool, &str)) -> bool {
        let tier = |label: &str, (available, lacks): (bool, &str)| serde_json::json!({"label": label, "available": available, "lacks": lacks});
        let foreign = (false, "it is for aarch64 and this is x86_64");
        let tiers = [
            tier("scalar", (true, "")),
            tier("avx2", avx2),
            tier("avx512vnni", avx512),
            tier("neon", foreign),
        ];
        let report = serde_json::json!({"chosen": chosen, "tiers": tiers});
        judge(&report.to_string(), &["avx2"]).is_ok()
    }

    #[test]
    fn a_build_has_the_tiers_of_its_features_and_no_others() {
        assert!(verdict("avx2", (true, ""), (false, OFF)));
        assert!(verdict("scalar", (false, "this CPU lacks avx2"), (false, OFF)));
        assert!(!verdict("avx2", (true, ""), (true, "")), "a tier whose feature is off");
        assert!(!verdict("avx2", (true, ""), (false, "this CPU lacks avx512f")), "the wrong reason");
        let off = "this build lacks the Cargo feature `avx2`";
        assert!(!verdict("scalar", (false, off), (false, OFF)), "a feature that does nothing");
        assert!(!verdict("avx2", (false, "this CPU lacks avx2"), (false, OFF)), "a choice that is not there");
        assert!(judge("{}", &[]).is_err());
    }
}
