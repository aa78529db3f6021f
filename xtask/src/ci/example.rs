//! The example of a conversation, on the demo model.

use std::io::Write;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::demo::{ANSWER, QUESTION};
use crate::{model, proc};

/// Runs the example and reads its answer.
pub(super) fn check() -> Result<()> {
    let file = model::fetch(&model::SMOLLM2, &model::cache_dir()?)?;
    let mut command = proc::cargo();
    command.args(["run", "--quiet", "-p", "cera-models", "--example", "chat", "--"]).arg(file);
    let line = proc::describe(&command);
    let mut example = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context(line.clone())?;
    writeln!(example.stdin.take().context("no standard input")?, "{QUESTION}")?;
    let output = example.wait_with_output()?;
    let answer = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !answer.contains(ANSWER) {
        bail!("`{line}` ended with {} and answered: {answer}", output.status);
    }
    Ok(())
}
