//! The architecture that tests are built for, and how its programs are built and started on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::proc;

const AARCH64_TARGET: &str = "aarch64-unknown-linux-gnu";
const AARCH64_GCC: &str = "aarch64-linux-gnu-gcc";
const AARCH64_QEMU: &str = "qemu-aarch64";
const AARCH64_ROOT: &str = "/usr/aarch64-linux-gnu";
/// What starts an emulated program.
const RUNNER: [&str; 3] = [AARCH64_QEMU, "-L", AARCH64_ROOT];
/// The compiler of Debian's package `rustc-web`, whose standard library exists for foreign architectures.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_RUSTDOC: &str = "/usr/bin/rustdoc";

/// A processor architecture that cera has kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    /// 64-bit x86.
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// The architecture of this machine.
    ///
    /// # Errors
    /// If cera has no kernels for it.
    pub(crate) fn host() -> Result<Arch> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Arch::X86_64),
            "aarch64" => Ok(Arch::Aarch64),
            other => bail!("tests run on x86_64 and aarch64; this machine is {other}"),
        }
    }

    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }
}

/// An architecture together with the means of building and running for it here.
pub(crate) struct Platform {
    arch: Arch,
    cross: Option<Cross>,
}

struct Cross {
    /// The compiler and documentation tool, if not the active toolchain's.
    tools: Option<(PathBuf, PathBuf)>,
}

impl Platform {
    /// The platform for `arch`: native where this machine is one, otherwise cross-built and emulated.
    ///
    /// # Errors
    /// If something is missing; the message names the Debian packages that bring it.
    pub(crate) fn new(arch: Arch) -> Result<Platform> {
        if arch == Arch::host()? {
            return Ok(Platform { arch, cross: None });
        }
        if arch != Arch::Aarch64 {
            bail!("{} cannot be emulated: run on such a machine", arch.name());
        }
        let missing = missing_packages();
        if !missing.is_empty() {
            bail!(
                "aarch64 tests need packages: dpkg --add-architecture arm64 && apt-get update && \
                 apt-get install --no-install-recommends {}",
                missing.join(" ")
            );
        }
        let tools = (!active_rustc_has_std()).then(|| (DEBIAN_RUSTC.into(), DEBIAN_RUSTDOC.into()));
        Ok(Platform { arch, cross: Some(Cross { tools }) })
    }

    /// The architecture.
    pub(crate) fn arch(&self) -> Arch {
        self.arch
    }

    /// Whether programs run under an emulator.
    pub(crate) fn is_emulated(&self) -> bool {
        self.cross.is_some()
    }

    /// The arguments that select these packages for cargo; without any, all that have something to test on this platform.
    /// Developer tools are not run on a foreign one.
    pub(crate) fn selection(&self, packages: &[String]) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        if !packages.is_empty() {
            return packages.iter().flat_map(|package| ["--package".to_string(), package.clone()]).collect();
        }
        if self.is_emulated() {
            return words(&["--workspace", "--exclude", "xtask", "--exclude", "cera-benches"]);
        }
        words(&["--workspace"])
    }

    /// A cargo command that builds for this platform, in a target folder of its own if it is a foreign one.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = proc::cargo();
        if let Some(cross) = &self.cross {
            cargo.env("CARGO_BUILD_TARGET", AARCH64_TARGET);
            cargo.env("CARGO_TARGET_DIR", proc::target_dir().join(self.arch.name()));
            cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", AARCH64_GCC);
            // Dynamically linked programs hang in the start of a second thread under qemu-user 7.2.
            cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
            if let Some((rustc, rustdoc)) = &cross.tools {
                cargo.env("RUSTC", rustc).env("RUSTDOC", rustdoc);
            }
        }
        cargo
    }

    /// As [`Platform::cargo`], for a program whose instructions are where its disassembly says.
    pub(crate) fn cargo_static(&self) -> Command {
        let mut cargo = self.cargo();
        let flags = "-C target-feature=+crt-static -C relocation-model=static";
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", flags);
        cargo
    }

    /// A command that starts `program`; under an emulator, on a processor that has what `tier` needs and not much more.
    pub(crate) fn command(&self, program: &Path, tier: &str) -> Command {
        if !self.is_emulated() {
            return Command::new(program);
        }
        let [emulator, options @ ..] = RUNNER;
        let mut command = Command::new(emulator);
        command.args(options).arg(program).env("QEMU_CPU", qemu_cpu(tier));
        command
    }

    /// The words that tests put before a program of ours that they start; none where it starts by itself.
    pub(crate) fn runner(&self) -> String {
        if self.is_emulated() { RUNNER.join(" ") } else { String::new() }
    }
}

/// The emulated processor for a tier; the one with everything where no tier is forced.
fn qemu_cpu(tier: &str) -> &'static str {
    match tier {
        "scalar" | "neon" => "cortex-a72",
        "neon-dotprod" => "neoverse-n1",
        _ => "max",
    }
}

/// The Debian packages that building and running for aarch64 on another architecture still needs.
pub(crate) fn missing_packages() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if !active_rustc_has_std() {
        let recent = debian_rustc_is_recent();
        if !recent {
            missing.push("rustc-web");
        }
        if !recent || !has_std(DEBIAN_RUSTC) {
            missing.push("libstd-rust-web-dev:arm64");
        }
    }
    if proc::find(AARCH64_GCC).is_none() {
        missing.push("gcc-aarch64-linux-gnu");
    }
    if !Path::new(AARCH64_ROOT).join("lib/libc.so.6").exists()
        || !Path::new(AARCH64_ROOT).join("include").exists()
    {
        missing.push("libc6-dev-arm64-cross");
    }
    if proc::find(AARCH64_QEMU).is_none() {
        missing.push("qemu-user");
    }
    missing
}

fn active_rustc_has_std() -> bool {
    has_std("rustc")
}

fn has_std(rustc: &str) -> bool {
    let mut command = Command::new(rustc);
    command.current_dir(proc::root()).args(["--print", "target-libdir", "--target", AARCH64_TARGET]);
    let Some(output) = proc::probe(&mut command).filter(|output| output.status.success()) else {
        return false;
    };
    let dir = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

/// Whether the compiler outside of rustup is at least the workspace's `rust-version`.
fn debian_rustc_is_recent() -> bool {
    let Some(output) = proc::probe(Command::new(DEBIAN_RUSTC).arg("--version")) else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    version(text.trim_start_matches("rustc ")) >= version(env!("CARGO_PKG_RUST_VERSION"))
}

/// Major and minor version at the start of `text`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', ' ']).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(version("1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
        assert!(version("1.100.0") > version("1.95"));
        assert!(version("not a version") < version("1.0"));
    }

    #[test]
    fn each_tier_gets_a_processor_that_lacks_the_next() {
        assert_eq!(qemu_cpu("neon"), "cortex-a72");
        assert_eq!(qemu_cpu("neon-dotprod"), "neoverse-n1");
        assert_eq!(qemu_cpu("neon-i8mm"), "max");
    }
}
