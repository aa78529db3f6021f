//! Hit reports: which kernels ran while a tier was forced.
//!
//! A report is any file in the folder, made of lines `<tier> <kernel id> <count>`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::tiers::Tier;

/// Hits while one tier was forced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hits {
    /// Of kernels of that tier.
    pub(super) own: u64,
    /// Of kernels that the tier borrows from a lower one.
    pub(super) borrowed: u64,
    /// The kernels of that tier that ran.
    pub(super) kernels: BTreeSet<String>,
}

impl Hits {
    /// The matrix kernels of `tier` in its `table` that did not run.
    pub(super) fn missed<'t>(&self, table: &'t [String], tier: &str) -> Vec<&'t str> {
        let several = format!("{tier}-gemm-");
        let one = format!("{tier}-gemv-");
        let due = |id: &&str| id.starts_with(&several) || id.starts_with(&one);
        table.iter().map(String::as_str).filter(due).filter(|id| !self.kernels.contains(*id)).collect()
    }
}

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} hits of {} kernels of its own, {} of lower tiers' kernels",
            self.own,
            self.kernels.len(),
            self.borrowed
        )
    }
}

/// Makes `dir` an empty folder.
pub(super) fn prepare(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))
}

/// Sums the reports in `dir` about `tier`.
///
/// # Errors
/// If a file cannot be read or a line has another form.
pub(super) fn read(dir: &Path, tier: &str, known: &[Tier]) -> Result<Hits> {
    let mut text = String::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    count(&text, tier, known)
}

fn count(text: &str, tier: &str, known: &[Tier]) -> Result<Hits> {
    let mut hits = Hits::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [label, id, count] = words[..] else { anyhow::bail!("odd line in a hit report: {line:?}") };
        let count: u64 = count.parse().with_context(|| format!("odd line in a hit report: {line:?}"))?;
        if label != tier || count == 0 {
            continue;
        }
        if owner(id, known) == Some(tier) {
            hits.own += count;
            hits.kernels.insert(id.to_string());
        } else {
            hits.borrowed += count;
        }
    }
    Ok(hits)
}

/// The tier that a kernel id names: of several labels that fit (`neon`, `neon-dotprod`) the longest.
fn owner<'t>(id: &str, known: &'t [Tier]) -> Option<&'t str> {
    let fits = |label: &&str| id.strip_prefix(*label).is_some_and(|rest| rest.starts_with('-'));
    known.iter().map(|tier| tier.label.as_str()).filter(fits).max_by_key(|label| label.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Tier> {
        ["scalar", "neon", "neon-dotprod"].map(|label| Tier { label: label.into(), available: true }).into()
    }

    fn hits(own: u64, borrowed: u64, kernels: &[&str]) -> Hits {
        Hits { own, borrowed, kernels: kernels.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn own_and_borrowed_hits_are_told_apart() {
        let text = "neon neon-gemv-q4_0xq8-8x1 3\nneon neon-gemv-q4_0xq8-8x1 4\nneon scalar-norm 5\nneon neon-rope 0\n";
        assert_eq!(count(text, "neon", &known()).expect("report"), hits(7, 5, &["neon-gemv-q4_0xq8-8x1"]));
    }

    #[test]
    fn a_longer_label_is_not_taken_for_a_shorter_one() {
        let text = "neon neon-dotprod-gemv 9\n";
        assert_eq!(count(text, "neon", &known()).expect("report"), hits(0, 9, &[]));
    }

    #[test]
    fn reports_of_other_tiers_do_not_count() {
        let text = "scalar scalar-gemv 9\n";
        assert_eq!(count(text, "neon", &known()).expect("report"), Hits::default());
    }

    #[test]
    fn matrix_kernels_of_the_tier_that_did_not_run_are_named() {
        let table = [
            "neon-gemm-f32xf32-8x4",
            "neon-gemm-q4_0xq8-8x4",
            "neon-gemv-f32xf32-8x1",
            "scalar-gemv-q4_0xq8-16x1",
            "neon-rope-f32",
        ];
        let table = table.map(String::from);
        let ran = hits(2, 0, &["neon-gemm-f32xf32-8x4"]);
        assert_eq!(ran.missed(&table, "neon"), ["neon-gemm-q4_0xq8-8x4", "neon-gemv-f32xf32-8x1"]);
        assert_eq!(ran.missed(&table, "scalar"), ["scalar-gemv-q4_0xq8-16x1"]);
    }

    #[test]
    fn odd_lines_are_errors() {
        assert!(count("neon neon-gemv many\n", "neon", &known()).is_err());
        assert!(count("neon 3\n", "neon", &known()).is_err());
    }
}
