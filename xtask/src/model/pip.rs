//! Downloading wheels with pip.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::proc;

/// Downloads the wheels of these requirements, without their dependencies, into `dir`.
///
/// # Errors
/// If no pip answers, or if it fails; the message then carries pip's own last line.
pub(crate) fn download(requirements: &[&str], dir: &Path) -> Result<()> {
    let mut pip = command()
        .context("pip is missing: install Python 3 with pip (Debian: apt-get install python3-pip)")?;
    pip.args(["download", "--quiet", "--no-deps", "--no-input", "--only-binary", ":all:", "--dest"]);
    pip.arg(dir).args(requirements);
    let output = proc::probe(&mut pip).context("pip could not be started")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
        let last = lines().rfind(|line| line.starts_with("ERROR")).or_else(|| lines().next_back());
        bail!("pip could not download {}: {}", requirements.join(", "), last.unwrap_or("it gave no reason"));
    }
    Ok(())
}

/// The first of `python3 -m pip` and `pip` that answers.
fn command() -> Option<Command> {
    let candidates: [&[&str]; 2] = [&["python3", "-m", "pip"], &["pip"]];
    candidates.into_iter().find_map(|words| {
        let make = || {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        let answers = proc::probe(make().arg("--version"))?.status.success();
        answers.then(make)
    })
}
