//! Installing what the emulated tests need from Debian's packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::proc;
use crate::test::{Arch, missing_packages};

/// Installs the missing packages if this user may; does nothing where none is missing.
///
/// # Errors
/// If something is missing and cannot be installed; the message says how to.
pub(super) fn provide() -> Result<()> {
    if Arch::host()? == Arch::Aarch64 {
        return Ok(());
    }
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() || proc::find("apt-get").is_none() {
        bail!(
            "missing packages; as root: dpkg --add-architecture arm64 && apt-get update && \
             apt-get install --no-install-recommends {}",
            missing.join(" ")
        );
    }
    println!("installing {}", missing.join(" "));
    proc::run_quietly(Command::new("dpkg").args(["--add-architecture", "arm64"]))?;
    proc::run_quietly(apt().args(["update"]))?;
    proc::run_quietly(
        apt().args(["install", "--yes", "--no-remove", "--no-install-recommends"]).args(&missing),
    )?;
    let missing = missing_packages();
    if !missing.is_empty() {
        bail!("still missing after installation: {}", missing.join(" "));
    }
    Ok(())
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
    apt
}

fn is_root() -> bool {
    let id = proc::probe(Command::new("id").arg("--user"));
    id.is_some_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "0")
}
