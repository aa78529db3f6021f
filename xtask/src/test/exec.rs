//! Running one test program and counting its tests.

use std::fmt;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};

use super::binaries::TestBinary;
use super::platform::Platform;
use super::{EMULATED_VAR, HITS_VAR, RUNNER_VAR, TIER_VAR};
use crate::proc;

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} skipped", self.ignored)?;
        }
        Ok(())
    }
}

/// What one program said.
pub(crate) struct Outcome {
    pub(crate) totals: Totals,
    /// Whether it ended with exit code 0.
    pub(crate) success: bool,
}

/// Runs a test binary in the folder of its package, on `tier` if that is not empty, and prints one line about it; its own
/// output follows only if it failed.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run_binary(
    platform: &Platform,
    binary: &TestBinary,
    tier: &str,
    args: &[String],
    env: &[(&'static str, PathBuf)],
) -> Result<Outcome> {
    let mut command = platform.command(&binary.executable, tier);
    proc::strip_cargo_run(&mut command);
    command.current_dir(&binary.package_dir).env("CARGO_MANIFEST_DIR", &binary.package_dir);
    command.env_remove(TIER_VAR).env_remove(HITS_VAR).env_remove(EMULATED_VAR);
    command.env(RUNNER_VAR, platform.runner());
    if platform.is_emulated() {
        command.env(EMULATED_VAR, "1");
    }
    command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
    let suffix = if tier.is_empty() { String::new() } else { format!(" [{tier}]") };
    measure(&format!("{}{suffix}", binary.name), &mut command)
}

/// Runs the documentation tests of the selected packages.
///
/// # Errors
/// If cargo cannot be started.
pub(super) fn doc_tests(platform: &Platform, selection: &[String]) -> Result<Outcome> {
    let mut cargo = platform.cargo();
    cargo.args(["test", "--quiet", "--doc"]).args(selection);
    measure("doc tests", &mut cargo)
}

/// Runs a command that prints results of the test harness, as [`run_binary`] does.
///
/// # Errors
/// If it cannot be started.
pub(super) fn measure(name: &str, command: &mut Command) -> Result<Outcome> {
    let start = Instant::now();
    let line = proc::describe(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let totals = count(&stdout);
    let mut text = format!("  {name}: {totals} ({:.1} s)", start.elapsed().as_secs_f64());
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        text += &format!("\n{stdout}{stderr}\n  {name} ended with {}", output.status);
    }
    // In one piece, since others may run at the same time.
    println!("{text}");
    Ok(Outcome { totals, success: output.status.success() })
}

/// Calls `run` for every job, `width` at a time, and returns the results in the order of the jobs.
///
/// # Errors
/// The first error of `run`, after all of them.
pub(super) fn in_parallel<J: Sync>(
    jobs: &[J],
    width: usize,
    run: impl Fn(&J) -> Result<Outcome> + Sync,
) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Outcome>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((job, result)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            jobs.get(at).zip(results.get(at))
        } {
            let outcome = run(job);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..width {
            scope.spawn(work);
        }
        work();
    });
    let finished =
        results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
    finished.map(|outcome| outcome.context("a test program was not run")?).collect()
}

/// The sums over the result lines of the test harness.
fn count(output: &str) -> Totals {
    let mut totals = Totals::default();
    for line in output.lines() {
        let Some(rest) = line.strip_prefix("test result: ") else { continue };
        let number = |unit: &str| -> usize {
            let field = rest.split([';', '.']).map(str::trim).find_map(|field| field.strip_suffix(unit));
            field.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        totals += Totals { passed: number("passed"), failed: number("failed"), ignored: number("ignored") };
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.25s\n";
        assert_eq!(count(output), Totals { passed: 15, failed: 2, ignored: 1 });
        assert_eq!(count("no harness here\n"), Totals::default());
    }

    #[test]
    fn results_keep_the_order_of_the_jobs() {
        let jobs: Vec<usize> = (0..20).collect();
        for width in [1, 2, 7, 50] {
            let run = |&passed: &usize| {
                Ok(Outcome { totals: Totals { passed, ..Totals::default() }, success: true })
            };
            let results = in_parallel(&jobs, width, run).expect("results");
            assert_eq!(results.iter().map(|outcome| outcome.totals.passed).collect::<Vec<_>>(), jobs);
        }
        let fails = |&job: &usize| {
            if job == 3 {
                anyhow::bail!("no such program")
            }
            Ok(Outcome { totals: Totals::default(), success: true })
        };
        let error = in_parallel(&jobs, 2, fails).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("no such program"));
    }

    #[test]
    fn totals_read_as_a_closing_line() {
        assert_eq!(Totals { passed: 2, failed: 0, ignored: 0 }.to_string(), "2 passed, 0 failed");
        assert_eq!(Totals { passed: 2, failed: 1, ignored: 3 }.to_string(), "2 passed, 1 failed, 3 skipped");
    }
}
