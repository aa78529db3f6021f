//! `xtask accept`: every threshold of wall time, bandwidth and resident memory.
//!
//! Such numbers mean something on a quiet machine only, so that no other command runs them; tests assert none. Each check
//! prints one line for each of its thresholds, `ok`, `FAIL` or `SKIP`, with what was measured and the limit. Whatever is
//! compared alternates, A B A B, in medians. Measurements run in processes of their own: `cera bench`, the program `cell`
//! of `benches`, and the peer's bench.

mod checks;
mod programs;
mod quiet;
mod speed;
mod verdict;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;

use self::programs::Programs;
use self::quiet::Ticks;
use self::verdict::Verdict;
use crate::{proc, synth};

/// Arguments of `xtask accept`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these checks, separated by commas [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Check>,
    /// List the checks and what they ask for, and run none.
    #[arg(long)]
    list: bool,
    /// How often each measurement is repeated, in alternation.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Tokens of the prompt of speed tests.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    n_prompt: u16,
    /// Tokens generated in speed tests.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    n_gen: u16,
    /// Threads of both sides of speed tests [default: the processors of this process].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Only these types of the models of speed tests, separated by commas [default: all].
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// llama.cpp's llama-bench, which speed tests compare with.
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    /// The folder to keep generated models in [default: models in cargo's target folder].
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// A file to write the table of the speed tests to, in Markdown, besides printing it.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Check {
    /// 16 threads, and two engines of 2 threads at once, decode a 1B Q4_0 model on 2 processors in at most 3 times the time
    /// of 2 threads.
    Threads,
    /// A session that has finished its work uses less than 1 % of a processor.
    Idle,
    /// Resident memory of a 1B Q4_0 model is at most 1.15 times the file, the peak at most the largest tensor more.
    Memory,
    /// Packing takes at most 0.8 times as long with 2 threads as with 1.
    Load,
    /// Encoding a text takes at most 2.5 times as long as half of it.
    Tokenize,
    /// Prefill is at least 1.2 times as fast as the peer's, decode 0.95 times. Needs --peer.
    Speed,
}

/// What checks run with.
struct Setup<'a> {
    args: &'a Args,
    programs: Programs,
}

impl Setup<'_> {
    /// The generated 1B model of a type.
    fn model_1b(&self, mix: &str) -> Result<PathBuf> {
        let dir = self.args.models.clone().unwrap_or_else(|| proc::target_dir().join("models"));
        synth::provide("llama-1b", mix, &dir)
    }

    fn rounds(&self) -> usize {
        self.args.rounds.into()
    }
}

impl Check {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    fn help(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// Makes the check; those that compare times also say whether the machine was quiet meanwhile.
    fn run(self, setup: &Setup<'_>) -> Vec<Verdict> {
        let start = Ticks::now();
        let (timed, result) = match self {
            Check::Threads => (true, checks::threads(setup)),
            Check::Idle => (false, checks::idle(setup)),
            Check::Memory => (false, checks::memory(setup)),
            Check::Load => (true, checks::load(setup)),
            Check::Tokenize => (true, checks::tokenize(setup)),
            Check::Speed => (setup.args.peer.is_some(), speed::check(setup)),
        };
        let broken = |error| vec![Verdict::broken(&self.name(), &error)];
        let mut verdicts = result.unwrap_or_else(broken);
        if timed {
            let quiet = start.and_then(|start| Ok(start.judge(Ticks::now()?, &self.name())));
            verdicts.extend(quiet.map_or_else(broken, |verdict| vec![verdict]));
        }
        verdicts
    }
}

/// Runs the checks.
pub(crate) fn run(args: &Args) -> Result<()> {
    let chosen = |check: &&Check| args.only.is_empty() || args.only.contains(check);
    let checks: Vec<Check> = Check::value_variants().iter().filter(chosen).copied().collect();
    if args.list {
        for check in checks {
            println!("{:<8} {}", check.name(), check.help());
        }
        return Ok(());
    }
    let setup = Setup { args, programs: Programs::build()? };
    let mut verdicts = Vec::new();
    for check in checks {
        let start = Instant::now();
        println!("== {}: {}", check.name(), check.help());
        let found = check.run(&setup);
        for verdict in &found {
            println!("{verdict}");
        }
        println!("   {:.1} s", start.elapsed().as_secs_f64());
        verdicts.extend(found);
    }
    let summary = verdict::summarize(&verdicts);
    println!("== summary\n{}", summary.text);
    if !summary.accepted {
        bail!("not accepted: {}", summary.text);
    }
    Ok(())
}
