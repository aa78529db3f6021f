//! Rules about tracked files that no lint knows.
//!
//! - A source file has at most 800 lines, and a warning above 400; tests in files of their own are free.
//! - Cargo's configuration chooses no processor: the environment would silently override it, and scalar code would not be
//!   scalar.
//! - The toolchain is the oldest that the workspace says to build with, so that nothing newer is used.
//! - No file names the host of a package registry; lock files are cargo's own and exempt.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::proc;

const SOFT_LIMIT: usize = 400;
const HARD_LIMIT: usize = 800;

/// Checks every tracked file, printing what breaks a rule.
///
/// # Errors
/// If any file does.
pub(super) fn check() -> Result<()> {
    let listed = proc::read(Command::new("git").current_dir(proc::root()).args(["ls-files", "-z"]))?;
    let mut faults = Vec::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let path = proc::root().join(name);
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {name}"))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if let Some(lines) = over_soft_limit(name, &text) {
            println!("warning: {name} has {lines} lines, more than {SOFT_LIMIT}");
        }
        faults.extend(judge(name, &text).into_iter().map(|fault| format!("{name} {fault}")));
    }
    let toolchain = fs::read_to_string(proc::root().join("rust-toolchain.toml"))?;
    faults.extend(toolchain_fault(&toolchain, env!("CARGO_PKG_RUST_VERSION")));
    for fault in &faults {
        println!("error: {fault}");
    }
    if !faults.is_empty() {
        bail!("{} rules are broken", faults.len());
    }
    Ok(())
}

/// What is wrong with the file that chooses the toolchain, where `version` is the `rust-version` of the workspace.
fn toolchain_fault(text: &str, version: &str) -> Option<String> {
    let channel = text.lines().find_map(|line| line.strip_prefix("channel = "))?.trim_matches('"');
    let is_it = channel.strip_prefix(version).is_some_and(|patch| patch.is_empty() || patch.starts_with('.'));
    (!is_it).then(|| format!("rust-toolchain.toml names {channel}, and rust-version is {version}"))
}

fn over_soft_limit(name: &str, text: &str) -> Option<usize> {
    let lines = limited_lines(name, text)?;
    (lines > SOFT_LIMIT && lines <= HARD_LIMIT).then_some(lines)
}

/// The number of lines, if the file is one that has a limit.
fn limited_lines(name: &str, text: &str) -> Option<usize> {
    let path = Path::new(name);
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
    (is_rust && !is_test).then(|| text.lines().count())
}

/// What the file does that it may not.
fn judge(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(lines) = limited_lines(name, text).filter(|&lines| lines > HARD_LIMIT) {
        faults.push(format!("has {lines} lines, more than {HARD_LIMIT}"));
    }
    let in_cargo_config = Path::new(name).iter().any(|part| part == ".cargo");
    if in_cargo_config {
        let chosen = ["target-cpu", "target-feature"].into_iter().filter(|option| text.contains(option));
        faults.extend(chosen.map(|option| format!("sets {option}")));
    }
    if Path::new(name).file_name().is_none_or(|file| file != "Cargo.lock") {
        let hosts = registry_hosts();
        let named = text
            .lines()
            .enumerate()
            .filter(|(_, line)| hosts.iter().any(|host| line.contains(host.as_str())));
        faults.extend(named.map(|(index, _)| format!("names a package registry in line {}", index + 1)));
    }
    faults
}

/// The hosts, put together here because this file is checked too.
fn registry_hosts() -> Vec<String> {
    let parts =
        [("crates", "io"), ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("deb.debian", "org")];
    parts.map(|(name, domain)| format!("{name}.{domain}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sources_are_refused_but_not_long_tests() {
        let text = "//\n".repeat(HARD_LIMIT + 1);
        assert_eq!(judge("crates/a/src/b.rs", &text).len(), 1);
        assert!(judge("crates/a/src/b.rs", &"//\n".repeat(HARD_LIMIT)).is_empty());
        for exempt in ["crates/a/src/b/tests.rs", "crates/a/tests/b.rs", "a.md"] {
            assert!(judge(exempt, &text).is_empty(), "{exempt}");
        }
    }

    #[test]
    fn the_toolchain_is_the_oldest_allowed() {
        let fault =
            |channel: &str| toolchain_fault(&format!("[toolchain]\nchannel = \"{channel}\"\n"), "1.95");
        assert_eq!((fault("1.95.0"), fault("1.95")), (None, None));
        for wrong in ["1.96.0", "1.950.0", "stable", "1.9"] {
            assert!(fault(wrong).is_some_and(|fault| fault.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn the_soft_limit_only_warns() {
        let text = "//\n".repeat(SOFT_LIMIT + 1);
        assert_eq!(over_soft_limit("a.rs", &text), Some(SOFT_LIMIT + 1));
        assert!(judge("a.rs", &text).is_empty());
        assert_eq!(over_soft_limit("a.rs", &"//\n".repeat(SOFT_LIMIT)), None);
    }

    #[test]
    fn the_processor_is_not_chosen_in_the_configuration() {
        assert_eq!(judge(".cargo/config.toml", "rustflags = [\"-Ctarget-cpu=native\"]").len(), 1);
        assert!(judge("docs/a.md", "do not set target-cpu").is_empty());
    }

    #[test]
    fn registries_are_not_named() {
        for host in registry_hosts() {
            let text = format!("see https://{host}/x");
            assert_eq!(judge("docs/a.md", &text), ["names a package registry in line 1"]);
            assert!(judge("Cargo.lock", &text).is_empty());
        }
    }
}
