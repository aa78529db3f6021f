//! `xtask ci`: everything that a change must pass, in steps that each report their time.
//!
//! A failing step does not keep the later ones from running, so that one run shows all faults.

mod apt;
mod baseline;
mod example;
mod features;
mod rules;
mod scan;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::test::{self, Arch, Plan, Platform, Report, Totals};
use crate::{model, proc};

/// Arguments of `xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps, separated by commas [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The limits of files and the patterns that no tracked file may have.
    Rules,
    /// The formatting of the sources.
    Fmt,
    /// The Debian packages that emulated tests need; installs them if this user may.
    Packages,
    /// The demo model.
    Model,
    /// The lints, with warnings as errors.
    Clippy,
    /// The lints with each Cargo feature alone, and with none.
    Features,
    /// The documentation, with warnings as errors.
    Doc,
    /// The model checks of the thread pool.
    Loom,
    /// The tests on every tier of this machine.
    Test,
    /// The example of a conversation, with the demo model.
    Example,
    /// The program on emulated x86-64 processors that lack tiers, and a look for their instructions in other code.
    Baseline,
    /// The tests on every tier of aarch64, emulated.
    Aarch64,
}

/// How one step ended.
struct Ended {
    step: Step,
    time: Duration,
    tests: Option<Report>,
    fault: Option<String>,
}

/// Runs the steps.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut ended = Vec::new();
    for &step in Step::value_variants() {
        if !args.only.is_empty() && !args.only.contains(&step) {
            continue;
        }
        println!("== {}", step.name());
        ended.push(step.perform());
    }
    summarize(&ended)
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    fn perform(self) -> Ended {
        let start = Instant::now();
        let result = self.start();
        let (tests, mut fault) = match result {
            Ok(tests) => (tests, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        if let Some(report) = tests.as_ref().filter(|report| !report.failures.is_empty()) {
            fault = Some(report.failures.join("; "));
        }
        if let Some(fault) = &fault {
            println!("{} failed: {fault}", self.name());
        }
        Ended { step: self, time: start.elapsed(), tests, fault }
    }

    fn start(self) -> Result<Option<Report>> {
        match self {
            Step::Rules => rules::check(),
            Step::Fmt => FMT.iter().try_for_each(|args| proc::run(proc::cargo().args(*args))),
            Step::Packages => apt::provide(),
            Step::Model => model::fetch(&model::SMOLLM2, &model::cache_dir()?).map(drop),
            Step::Clippy => clippy(),
            Step::Features => features::check(),
            Step::Doc => proc::run(proc::cargo().args(DOC).env("RUSTDOCFLAGS", "-D warnings")),
            Step::Loom => return test::model_checks().map(Some),
            Step::Example => example::check(),
            Step::Baseline => baseline::check(),
            Step::Test => return tests(Arch::host()?).map(Some),
            Step::Aarch64 => return tests(Arch::Aarch64).map(Some),
        }?;
        Ok(None)
    }
}

/// The workspace, and the fuzz targets, which are one of their own.
const FMT: [&[&str]; 2] =
    [&["fmt", "--all", "--check"], &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]];
const CLIPPY: [&[&str]; 2] = [
    &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
    &["clippy", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--all-targets", "--", "-D", "warnings"],
];
const DOC: [&str; 4] = ["doc", "--quiet", "--workspace", "--no-deps"];

fn clippy() -> Result<()> {
    // One target folder for both, so that the dependencies are checked once.
    let target = proc::target_dir();
    CLIPPY.iter().try_for_each(|args| proc::run(proc::cargo().args(*args).env("CARGO_TARGET_DIR", &target)))
}

fn tests(arch: Arch) -> Result<Report> {
    test::execute(&Platform::new(arch)?, &Plan::default())
}

/// The tiers of all architectures: scalar counts on each, and so do tiers that this machine lacks.
fn tier_line(run: usize, all: usize, lacking: &[&str]) -> String {
    let here = if lacking.is_empty() {
        String::new()
    } else {
        format!("; this machine lacks {}", lacking.join(", "))
    };
    format!("ran {run} of {all} tiers{here}")
}

/// Prints one line a step and the number of tests last.
///
/// # Errors
/// If any step failed; the error names it.
fn summarize(ended: &[Ended]) -> Result<()> {
    println!("== summary");
    let mut totals = Totals::default();
    let (mut tiers_run, mut tiers, mut lacking) = (0, 0, Vec::new());
    for end in ended {
        let mut line = format!("{:<9} {:>6.1} s  ", end.step.name(), end.time.as_secs_f64());
        line += if end.fault.is_some() { "FAILED" } else { "ok" };
        if let Some(report) = &end.tests {
            totals += report.totals;
            tiers_run += report.tiers_run;
            tiers += report.tiers_asked + report.lacking.len();
            lacking.extend(&report.lacking);
            let tiers =
                if report.tiers_asked > 0 { format!("{}, ", report.tier_line()) } else { String::new() };
            line += &format!("  {tiers}{}", report.totals);
        }
        println!("{line}");
    }
    println!("total {:.1} s", ended.iter().map(|end| end.time).sum::<Duration>().as_secs_f64());
    if ended.iter().any(|end| end.tests.is_some()) {
        println!("{}", tier_line(tiers_run, tiers, &lacking));
        println!("{totals}");
    }
    let failed: Vec<String> =
        ended.iter().filter(|end| end.fault.is_some()).map(|end| end.step.name()).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_that_this_machine_lacks_count_among_all() {
        assert_eq!(tier_line(8, 8, &[]), "ran 8 of 8 tiers");
        assert_eq!(
            tier_line(6, 8, &["avx512vnni", "avx512bf16"]),
            "ran 6 of 8 tiers; this machine lacks avx512vnni, avx512bf16"
        );
    }
}
