//! Building the test binaries and finding them in what cargo reports.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::platform::Platform;
use crate::proc;

/// What a build left: test binaries, in cargo's order, and the `cera` program if cargo built it along the way.
pub(crate) struct Build {
    pub(crate) tests: Vec<TestBinary>,
    cera: Option<PathBuf>,
}

/// One test program.
pub(crate) struct TestBinary {
    /// The package and the target, as in `cera-core/tier_golden`; the library's own tests go by the package alone.
    pub(crate) name: String,
    /// The name of the cargo target.
    pub(crate) target: String,
    pub(crate) executable: PathBuf,
    /// The folder of the package, in which cargo would start it.
    pub(crate) package_dir: PathBuf,
}

impl TestBinary {
    /// Whether it is to be run once per tier.
    pub(crate) fn is_tier_test(&self) -> bool {
        self.target.starts_with("tier_")
    }

    /// What is to run first has the lowest: kernels, then what depends on the tier, then all else.
    pub(crate) fn turn(&self) -> u8 {
        let package = self.package_dir.file_name().unwrap_or_default().to_string_lossy();
        match (&*package, self.is_tier_test()) {
            ("quant", _) => 0,
            (package, _) if package.starts_with("simd") => 0,
            (_, true) => 1,
            (_, false) => 2,
        }
    }
}

/// Builds the tests that the arguments for cargo select.
///
/// # Errors
/// If cargo fails.
pub(crate) fn build(platform: &Platform, selection: &[String]) -> Result<Build> {
    let mut cargo = platform.cargo();
    cargo.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    parse(&proc::read(cargo.args(selection))?)
}

impl Build {
    /// The `cera` program for this platform, built now if the tests did not need it.
    ///
    /// # Errors
    /// If cargo fails or reports no such program.
    pub(crate) fn cera(&self, platform: &Platform) -> Result<PathBuf> {
        if let Some(path) = &self.cera {
            return Ok(path.clone());
        }
        let mut cargo = platform.cargo();
        cargo.args(["build", "--workspace", "--bin", "cera", "--message-format=json-render-diagnostics"]);
        parse(&proc::read(&mut cargo)?)?.cera.context("cargo built no program named cera")
    }
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn parse(messages: &str) -> Result<Build> {
    let mut build = Build { tests: Vec::new(), cera: None };
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("cargo printed an unknown message")?;
        if message.reason != "compiler-artifact" {
            continue;
        }
        let (Some(target), Some(profile), Some(executable)) =
            (message.target, message.profile, message.executable)
        else {
            continue;
        };
        if profile.test {
            let manifest = message.manifest_path.context("cargo named no manifest of a test")?;
            let package_dir = manifest.parent().unwrap_or(Path::new("/")).to_path_buf();
            build.tests.push(TestBinary {
                name: display_name(&package_dir, &target),
                target: target.name,
                executable,
                package_dir,
            });
        } else if target.name == "cera" && target.kind.iter().any(|kind| kind == "bin") {
            build.cera = Some(executable);
        }
    }
    Ok(build)
}

fn display_name(package_dir: &Path, target: &Target) -> String {
    let package = package_dir.file_name().unwrap_or_default().to_string_lossy();
    if target.kind.iter().any(|kind| kind == "lib") {
        package.into_owned()
    } else {
        format!("{package}/{}", target.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{"kind":["lib"],"name":"cera_core"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{"kind":["lib"],"name":"cera_core"},"profile":{"test":true},"executable":"/t/cera_core-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{"kind":["test"],"name":"tier_ops"},"profile":{"test":true},"executable":"/t/tier_ops-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"cera"},"profile":{"test":false},"executable":"/t/cera"}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn tests_and_the_program_are_told_apart() {
        let build = parse(MESSAGES).expect("messages");
        let names: Vec<_> =
            build.tests.iter().map(|test| (test.name.as_str(), test.is_tier_test())).collect();
        assert_eq!(names, [("core", false), ("core/tier_ops", true)]);
        assert_eq!(build.tests[1].package_dir, Path::new("/w/crates/core"));
        assert_eq!(build.tests.iter().map(TestBinary::turn).collect::<Vec<_>>(), [2, 1]);
        let kernels = TestBinary {
            package_dir: "/w/crates/simd-neon".into(),
            ..parse(MESSAGES).expect("messages").tests.remove(0)
        };
        assert_eq!(kernels.turn(), 0);
        assert_eq!(build.cera.as_deref(), Some(Path::new("/t/cera")));
    }
}
