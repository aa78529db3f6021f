//! `xtask demo`: from nothing to a real model's answer.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::{model, proc};

/// What the demo model is asked. The same sampling and seed give the same answer on every machine.
pub(crate) const QUESTION: &str = "Tell me the capital of France.";

/// What the answer must contain.
pub(crate) const ANSWER: &str = "Paris";

/// Arguments of `xtask demo`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Fetches the demo model, builds the release program and asks a question.
pub(crate) fn run(_args: &Args) -> Result<()> {
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    println!("== fetching SmolLM2-135M-Instruct (98 MB, once)");
    let file = model::fetch(&model::SMOLLM2, &model::cache_dir()?)?;
    println!("== building cera in release mode ({:.0} s so far; a first build takes minutes)", seconds());
    proc::run(proc::cargo().args(["build", "--release", "-p", "cera-cli"]))?;
    println!("== asking ({:.0} s so far)\n\n> {QUESTION}\n", seconds());
    let mut cera = std::process::Command::new(proc::target_dir().join("release").join("cera"));
    let answer = proc::read(cera.arg("run").arg("-m").arg(&file).args(["-p", QUESTION, "--temp", "0"]))?;
    println!("{}\n\n== done in {:.0} s. Ask on with: {}", answer.trim(), seconds(), shown(&file));
    match answer.contains(ANSWER) {
        true => Ok(()),
        false => bail!("the answer does not name {ANSWER}"),
    }
}

fn shown(file: &std::path::Path) -> String {
    format!("cargo run --release -p cera-cli -- run -m {} -p \"...\"", file.display())
}
