//! `xtask test`: every test once, and the tier-dependent ones once per tier, each tier in processes of its own.
//!
//! A test binary whose name starts with `tier_` depends on the tier. It is started with `CERA_CPU_TIER` set to the tier and
//! `CERA_HITS_DIR` set to an empty folder, where the test support of the engine reports which kernels ran. A tier counts as
//! run only if kernels of its own were hit, and in a run of everything only if every matrix kernel of its own was: a tier
//! that was asked for and was not is a failure, whatever the tests said. Which tiers this machine should have is not left
//! to the engine ([`tiers::departures`]).

mod binaries;
mod exec;
mod hits;
mod platform;
mod tiers;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

pub(crate) use binaries::{Build, TestBinary, build};
pub(crate) use exec::{Totals, run_binary};
use hits::Hits;
pub(crate) use platform::{Arch, Platform, missing_packages};
use tiers::Tier;

use crate::{model, proc};

/// The variable that forces a tier.
pub(crate) const TIER_VAR: &str = "CERA_CPU_TIER";
/// The variable that names the folder of hit reports.
const HITS_VAR: &str = "CERA_HITS_DIR";
/// The variable that tells tests that the processor is emulated: `1` if they must be brief, `full` if they need not.
const EMULATED_VAR: &str = "CERA_TEST_EMULATED";
/// The variable that tells tests how to start a program of ours: words to put before it.
const RUNNER_VAR: &str = "CERA_TEST_RUNNER";
/// The variables that tell tests where the demo models are.
const MODEL_VARS: [(&str, &model::Recipe); 2] =
    [("CERA_TEST_SMOLLM2", &model::SMOLLM2), ("CERA_TEST_GEMMA3", &model::GEMMA3)];

/// Arguments of `xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tiers to run, separated by commas [default: all that this machine or its emulator has].
    #[arg(long, value_delimiter = ',')]
    tiers: Vec<String>,
    /// The processor architecture; a foreign one is built with a cross compiler and run under qemu.
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Only the tests of these packages [default: the workspace].
    #[arg(short, long = "package")]
    packages: Vec<String>,
    /// Also run the slow tests, those marked `#[ignore]`, and do all under emulation that is otherwise cut short; fetches the
    /// models that they need.
    #[arg(long)]
    full: bool,
    /// Filters and options for the test binaries, as after `cargo test --`.
    #[arg(last = true)]
    filters: Vec<String>,
}

/// What to run: the arguments of the command, or the choice of `xtask ci`.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) tiers: Vec<String>,
    pub(crate) packages: Vec<String>,
    pub(crate) full: bool,
    pub(crate) filters: Vec<String>,
}

/// What came of a plan on one architecture.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) totals: Totals,
    pub(crate) tiers_run: usize,
    pub(crate) tiers_asked: usize,
    /// The tiers of the architecture that this machine cannot run, where all were asked for.
    pub(crate) lacking: Vec<&'static str>,
    pub(crate) failures: Vec<String>,
}

impl Plan {
    /// Whether all tests run, so that every kernel must.
    fn is_everything(&self) -> bool {
        self.packages.is_empty() && self.filters.is_empty()
    }
}

impl Report {
    /// The line about the tiers.
    pub(crate) fn tier_line(&self) -> String {
        format!("ran {} of {} tiers", self.tiers_run, self.tiers_asked)
    }

    fn add(&mut self, name: &str, outcome: &exec::Outcome) {
        self.totals += outcome.totals;
        if !outcome.success {
            self.failures.push(name.to_string());
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let platform = Platform::new(args.arch.map_or_else(Arch::host, Ok)?)?;
    if args.full {
        let dir = model::cache_dir()?;
        MODEL_VARS.iter().try_for_each(|(_, recipe)| model::fetch(recipe, &dir).map(drop))?;
    }
    let plan = Plan {
        tiers: args.tiers.clone(),
        packages: args.packages.clone(),
        full: args.full,
        filters: args.filters.clone(),
    };
    let report = execute(&platform, &plan)?;
    for failure in &report.failures {
        println!("failed: {failure}");
    }
    println!("{}", report.tier_line());
    println!("{}", report.totals);
    if !report.failures.is_empty() {
        bail!("{} of the runs failed", report.failures.len());
    }
    Ok(())
}

/// Builds and runs everything of the plan; failing tests are in the report, what keeps tests from running is an error.
/// What an emulator runs, it runs two programs at a time: most of their tests keep one processor busy.
pub(crate) fn execute(platform: &Platform, plan: &Plan) -> Result<Report> {
    tiers::check_labels(&plan.tiers, platform.arch())?;
    let selection = platform.selection(&plan.packages);
    // Not the examples, which may be for one architecture only; the lints see them all.
    let build = build(platform, &[&selection[..], &["--tests".into()]].concat())?;
    let cera = build.cera(platform)?;
    let known = tiers::query(platform, &cera)?;
    let chosen = tiers::choose(&known, &plan.tiers)?;
    let mut report = Report { tiers_asked: chosen.len(), ..Report::default() };
    if plan.tiers.is_empty() {
        report.failures = tiers::departures(&known, platform);
        report.lacking = tiers::lacking(platform);
    }
    let engine = Engine { platform, build: &build, cera: &cera, known: &known };
    let jobs = jobs(&engine, plan, &chosen)?;
    let width = if platform.is_emulated() { 2 } else { 1 };
    let outcomes = exec::in_parallel(&jobs, width, |job| {
        run_binary(platform, job.binary, job.tier, &libtest_args(plan), &job.env)
    })?;
    for (job, outcome) in jobs.iter().zip(&outcomes) {
        let tier = if job.tier.is_empty() { String::new() } else { format!(" [{}]", job.tier) };
        report.add(&format!("{}{tier}", job.binary.name), outcome);
    }
    if !platform.is_emulated() && plan.filters.is_empty() {
        let outcome = exec::doc_tests(platform, &selection)?;
        report.add("doc tests", &outcome);
    }
    for tier in chosen {
        judge_tier(&engine, plan, tier, &mut report)?;
    }
    Ok(report)
}

/// One run of a test program.
struct Job<'e> {
    binary: &'e TestBinary,
    /// The tier that is forced; empty for tests that do not depend on it.
    tier: &'e str,
    env: Vec<(&'static str, PathBuf)>,
}

/// What a plan runs, in order: every binary once, or once for each chosen tier that is available.
fn jobs<'e>(engine: &Engine<'e>, plan: &Plan, chosen: &[&'e Tier]) -> Result<Vec<Job<'e>>> {
    let mut common = common_env();
    if plan.full && engine.platform.is_emulated() {
        common.push((EMULATED_VAR, "full".into()));
    }
    let mut jobs = Vec::new();
    for binary in engine.build.tests.iter().filter(|binary| !binary.is_tier_test()) {
        jobs.push(Job { binary, tier: "", env: common.clone() });
    }
    for tier in chosen.iter().filter(|tier| tier.available) {
        let dir = hits_dir(engine.platform, &tier.label);
        hits::prepare(&dir)?;
        let mut env = common.clone();
        env.push((TIER_VAR, tier.label.clone().into()));
        env.push((HITS_VAR, dir));
        let binaries = engine.build.tests.iter().filter(|binary| binary.is_tier_test());
        jobs.extend(binaries.map(|binary| Job { binary, tier: &tier.label, env: env.clone() }));
    }
    jobs.sort_by_key(|job| job.binary.turn());
    Ok(jobs)
}

/// Runs the model checks of the thread pool: its unit tests under `cfg(loom)`, in a target folder of their own.
pub(crate) fn model_checks() -> Result<Report> {
    let mut cargo = proc::cargo();
    cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", proc::target_dir().join("loom"));
    cargo.args(["test", "--quiet", "--release", "--package", "cera-core", "--lib", "loom_tests"]);
    let outcome = exec::measure("loom", &mut cargo)?;
    let mut report = Report::default();
    report.add("loom", &outcome);
    if outcome.totals.passed == 0 {
        report.failures.push("no model check ran".to_string());
    }
    Ok(report)
}

/// What was built, and what it says of itself.
struct Engine<'e> {
    platform: &'e Platform,
    build: &'e Build,
    cera: &'e Path,
    known: &'e [Tier],
}

/// Says whether a tier ran, by the kernels that were hit.
fn judge_tier(engine: &Engine<'_>, plan: &Plan, tier: &Tier, report: &mut Report) -> Result<()> {
    if !tier.available {
        report.failures.push(format!("tier {} is not available here and did not run", tier.label));
        return Ok(());
    }
    let counted = hits::read(&hits_dir(engine.platform, &tier.label), &tier.label, engine.known)?;
    println!("  tier {}: {counted}", tier.label);
    let missed = missed_kernels(engine, plan, tier, &counted)?;
    if counted.own == 0 {
        report.failures.push(format!("tier {} did not run: no kernel of its own was hit", tier.label));
    } else if !missed.is_empty() {
        report.failures.push(format!(
            "tier {} did not run in full: no hit of {}",
            tier.label,
            missed.join(", ")
        ));
    } else {
        report.tiers_run += 1;
    }
    Ok(())
}

/// The matrix kernels of the tier that everything together did not run.
fn missed_kernels(engine: &Engine<'_>, plan: &Plan, tier: &Tier, counted: &Hits) -> Result<Vec<String>> {
    if !plan.is_everything() {
        return Ok(Vec::new());
    }
    let table = tiers::kernels(engine.platform, engine.cera, &tier.label)?;
    let missed = counted.missed(&table, &tier.label);
    Ok(missed.into_iter().map(String::from).collect())
}

fn hits_dir(platform: &Platform, tier: &str) -> PathBuf {
    proc::target_dir().join("xtask/hits").join(platform.arch().name()).join(tier)
}

fn libtest_args(plan: &Plan) -> Vec<String> {
    let mut args = plan.filters.clone();
    if plan.full {
        args.push("--include-ignored".into());
    }
    args
}

/// What every test binary is told: where the demo models are that were fetched.
pub(crate) fn common_env() -> Vec<(&'static str, PathBuf)> {
    let path = |(variable, recipe)| {
        let given = std::env::var_os(variable).map(PathBuf::from);
        let cached = || model::cached(recipe, &model::cache_dir().ok()?);
        Some((variable, absolute(&given.or_else(cached)?)))
    };
    MODEL_VARS.into_iter().filter_map(path).collect()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The tiers that can run on this platform.
///
/// # Errors
/// If the engine cannot be asked, or calls other tiers available than this machine should have.
pub(crate) fn expected_tiers(platform: &Platform, cera: &Path) -> Result<Vec<Tier>> {
    let known = tiers::query(platform, cera)?;
    let departures = tiers::departures(&known, platform);
    if !departures.is_empty() {
        bail!("{}", departures.join("; "));
    }
    Ok(known.into_iter().filter(|tier| tier.available).collect())
}
