//! `xtask bless`: rewrites the golden file from a run on every tier of every architecture.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::test::{self, Arch, Platform, TestBinary};
use crate::{model, proc};

/// The file that holds the golden hashes, below the workspace root.
const GOLDEN: &str = "tests/golden.json";
/// The test target that compares with it, or writes what it computed to the path that the variable names.
const GOLDEN_TEST: &str = "tier_golden";
const BLESS_VAR: &str = "CERA_BLESS";

/// Arguments of `xtask bless`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only compare with the tiers of this architecture and write nothing [default: write what the tiers of this
    /// machine and, emulated, of aarch64 agree on].
    #[arg(long, value_enum)]
    arch: Option<Arch>,
}

/// What the golden file holds for one model and sequence.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    tokens: usize,
    kv_f32: String,
    kv_f16: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kv_q8_0: String,
}

/// Entries by name.
type Golden = BTreeMap<String, Entry>;

/// Runs the golden test on every tier and, if all tiers of all architectures agree, puts their common result in place.
/// For one architecture the result is only compared with what is in place.
pub(crate) fn run(args: &Args) -> Result<()> {
    // The golden file covers the demo model too, which tests find in the cache folder.
    model::fetch(&model::SMOLLM2, &model::cache_dir()?)?;
    let archs = match args.arch {
        Some(arch) => vec![arch],
        None => vec![Arch::X86_64, Arch::Aarch64],
    };
    let mut results: Vec<(String, Golden)> = Vec::new();
    for arch in archs {
        results.extend(compute(&Platform::new(arch)?)?);
    }
    let path = proc::root().join(GOLDEN);
    if args.arch.is_some() {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let present = parse(&text).with_context(|| format!("cannot read {}", path.display()))?;
        join((GOLDEN.to_string(), present), &results)?;
        println!("{} runs agree with {GOLDEN}", results.len());
        return Ok(());
    }
    if results.is_empty() {
        bail!("no tier is available");
    }
    let first = results.remove(0);
    let golden = join(first, &results).with_context(|| format!("{GOLDEN} stays as it is"))?;
    let text = serde_json::to_string_pretty(&golden)? + "\n";
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{GOLDEN} holds {} entries, on which {} runs agree", golden.len(), results.len() + 1);
    Ok(())
}

fn parse(text: &str) -> Result<Golden> {
    Ok(serde_json::from_str(text)?)
}

/// The entries of the first result, with which all others agree. The others may have fewer: emulated runs are short.
///
/// # Errors
/// If another result has an entry that the first has otherwise or lacks, or has none.
fn join((first, golden): (String, Golden), others: &[(String, Golden)]) -> Result<Golden> {
    let mut faults = Vec::new();
    for (run, entries) in others {
        if entries.is_empty() {
            faults.push(format!("{run} has no entries"));
        }
        let wrong = entries.iter().filter(|(name, entry)| golden.get(*name) != Some(entry));
        faults.extend(wrong.map(|(name, _)| format!("{run} and {first} disagree on {name}")));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("; "));
    }
    Ok(golden)
}

/// The result of the golden test for each available tier, labelled with architecture and tier.
fn compute(platform: &Platform) -> Result<Vec<(String, Golden)>> {
    let mut selection = platform.selection(&[]);
    selection.extend(["--test".into(), GOLDEN_TEST.into()]);
    let build = test::build(platform, &selection)?;
    let cera = build.cera(platform)?;
    let binaries: Vec<&TestBinary> =
        build.tests.iter().filter(|binary| binary.target == GOLDEN_TEST).collect();
    let [binary] = binaries[..] else {
        bail!("there are {} test targets named {GOLDEN_TEST}", binaries.len())
    };
    let dir = proc::target_dir().join("xtask/bless").join(platform.arch().name());
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut results = Vec::new();
    for tier in test::expected_tiers(platform, &cera)? {
        let name = format!("{} {}", platform.arch().name(), tier.label);
        let path: PathBuf = dir.join(format!("{}.json", tier.label));
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let mut env = test::common_env();
        env.push((test::TIER_VAR, tier.label.clone().into()));
        env.push((BLESS_VAR, path.clone()));
        if !test::run_binary(platform, binary, &tier.label, &[], &env)?.success {
            bail!("{GOLDEN_TEST} failed on {name}");
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{GOLDEN_TEST} on {name} wrote no golden file"))?;
        let entries = parse(&text).with_context(|| format!("cannot read what {name} wrote"))?;
        results.push((name, entries));
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(entries: &[(&str, &str)]) -> Golden {
        let entry = |hash: &str| Entry {
            file: "f".into(),
            tokens: 96,
            kv_f32: hash.into(),
            kv_f16: "h".into(),
            kv_q8_0: String::new(),
        };
        entries.iter().map(|(name, hash)| ((*name).to_string(), entry(hash))).collect()
    }

    fn joined(first: &[(&str, &str)], other: &[(&str, &str)]) -> Result<Golden> {
        join(("one".into(), golden(first)), &[("two".into(), golden(other))])
    }

    #[test]
    fn a_run_with_fewer_entries_agrees() {
        let first = [("a", "1"), ("b", "2")];
        assert_eq!(joined(&first, &first).expect("equal"), golden(&first));
        assert_eq!(joined(&first, &[("b", "2")]).expect("a part"), golden(&first));
    }

    #[test]
    fn a_run_with_another_hash_or_name_disagrees() {
        let first = [("a", "1"), ("b", "2")];
        let fault = |other| joined(&first, other).expect_err("a fault").to_string();
        assert_eq!(fault(&[("a", "1"), ("b", "3")]), "two and one disagree on b");
        assert_eq!(fault(&[("c", "1")]), "two and one disagree on c");
        assert_eq!(fault(&[]), "two has no entries");
    }
}
