//! `xtask fuzz`: the fuzz targets, with the nightly toolchain.

use std::process::Command;

use anyhow::{Result, bail};

use crate::proc;

const TOOLCHAIN: &str = "+nightly";

/// Arguments of `xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The target [default: all of them, one after the other].
    target: Option<String>,
}

/// Runs the targets; a crash is a failure.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !proc::root().join("fuzz/Cargo.toml").is_file() {
        bail!("there is no fuzz/Cargo.toml");
    }
    if !answers(&["--version"]) {
        bail!("fuzzing needs the nightly toolchain: rustup toolchain install nightly");
    }
    if !answers(&["fuzz", "--version"]) {
        bail!("cargo-fuzz is missing: cargo install cargo-fuzz");
    }
    let listed = proc::read(nightly().args(["fuzz", "list"]))?;
    let targets: Vec<&str> = match &args.target {
        Some(target) => vec![target],
        None => listed.lines().map(str::trim).filter(|line| !line.is_empty()).collect(),
    };
    if targets.is_empty() {
        bail!("cargo fuzz lists no targets");
    }
    proc::run(nightly().args([
        "run",
        "--quiet",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--example",
        "seeds",
    ]))?;
    for target in targets {
        println!("fuzzing {target} for {} s", args.seconds);
        proc::run(nightly().args([
            "fuzz",
            "run",
            target,
            "--",
            &format!("-max_total_time={}", args.seconds),
        ]))?;
    }
    Ok(())
}

/// Cargo through rustup, which takes the toolchain as its first argument.
fn nightly() -> Command {
    let mut command = Command::new("cargo");
    proc::strip_cargo_run(&mut command);
    command.current_dir(proc::root()).env_remove("RUSTUP_TOOLCHAIN").arg(TOOLCHAIN);
    command
}

fn answers(args: &[&str]) -> bool {
    proc::probe(nightly().args(args)).is_some_and(|output| output.status.success())
}
