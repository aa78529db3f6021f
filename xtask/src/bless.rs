//! `xtask bless`: rewrites the golden file from a run on every tier of every architecture.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

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

/// Runs the golden test on every tier and, if all tiers of all architectures agree, puts their common result in place.
/// For one architecture the result is only compared with what is in place.
pub(crate) fn run(args: &Args) -> Result<()> {
    // The golden file covers the demo model too, which tests find in the cache folder.
    model::fetch(&model::SMOLLM2, &model::cache_dir()?)?;
    let archs = match args.arch {
        Some(arch) => vec![arch],
        None => vec![Arch::X86_64, Arch::Aarch64],
    };
    let mut results: Vec<(String, String)> = Vec::new();
    for arch in archs {
        results.extend(compute(&Platform::new(arch)?)?);
    }
    let Some((first, golden)) = results.first() else { bail!("no tier is available") };
    let others: Vec<&str> =
        results.iter().filter(|(_, text)| text != golden).map(|(tier, _)| tier.as_str()).collect();
    if !others.is_empty() {
        bail!("{GOLDEN} stays as it is: {} and {first} disagree", others.join(", "));
    }
    let path = proc::root().join(GOLDEN);
    if args.arch.is_some() {
        let present = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if present != *golden {
            bail!("{} runs agree with each other but not with {GOLDEN}, which stays as it is", results.len());
        }
        println!("{} runs agree with {GOLDEN}", results.len());
        return Ok(());
    }
    fs::write(&path, golden).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{GOLDEN} holds what {} runs agree on", results.len());
    Ok(())
}

/// The result of the golden test for each available tier, labelled with architecture and tier.
fn compute(platform: &Platform) -> Result<Vec<(String, String)>> {
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
        results.push((name, text));
    }
    Ok(results)
}
