//! `cera completions`: a script that completes the commands of a shell.

use anyhow::Result;
use clap_complete::Shell;

use crate::output;

/// Arguments of `cera completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "cera", &mut script);
    output::stream(&String::from_utf8(script)?).map(drop)
}
