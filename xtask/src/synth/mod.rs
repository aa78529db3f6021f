//! `xtask synth`: models with random weights.

use anyhow::{Result, bail};

/// Arguments of `xtask synth`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> Result<()> {
    bail!("synth is not there yet")
}
