//! `xtask accept`: every threshold of wall time, bandwidth and resident memory.
//!
//! Such numbers mean something on a quiet machine only, so that no other command runs them; tests assert none. Each check
//! prints one line for each of its thresholds, `ok`, `FAIL` or `SKIP`, with what was measured and the limit. Whatever is
//! compared alternates, A B A B, in medians. Measurements run in processes of their own: `cera bench`, the program `cell`
//! of `benches`, and the peer's bench.

mod checks;
mod peer;
mod programs;
mod quiet;
mod verdict;
mod x86;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use self::peer::{Peer, PeerName};
use self::programs::Programs;
use self::quiet::Ticks;
use self::verdict::Verdict;
use crate::{proc, synth};

/// Arguments of `xtask accept`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these checks; `x86` stands for all that concern the x86 tiers [default: all].
    #[arg(value_enum, value_name = "CHECK")]
    checks: Vec<Check>,
    /// List the checks and what they ask for, and run none.
    #[arg(long)]
    list: bool,
    /// How often each measurement is repeated, in alternation [default: 5; 15 where an interval is asked for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Threads of both sides [default: the processors of this process].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Only these types of models and matrices, separated by commas [default: all].
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// A program to compare with, `llama-bench=PATH` or, built without AVX-512, `llama-bench-avx2=PATH`.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse)]
    peer: Vec<Peer>,
    /// The folder to keep generated models in [default: models in cargo's target folder].
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// A file to write the tables of comparisons to, in Markdown, besides printing them.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// Rounds of a check, unless they are given.
const ROUNDS: u16 = 5;
/// Rounds where the interval of a median is asked for.
const INTERVAL_ROUNDS: u16 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Check {
    /// All checks of the x86 tiers, from `kernels` on, and `memory`.
    X86,
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
    /// Decode steps of the Qwen3-Next shape spend the same time, up to 5 %, in layers of linear attention after 16,000 tokens
    /// as after 100; prefill spends at most 15 % in their recurrence.
    Linear,
    /// Matrix kernels alone reach their share of one core's integer peak.
    Kernels,
    /// Prefill of 512 tokens of 1B models reaches 62 % of the integer peak, and 1.3 times the peer's speed.
    Prefill,
    /// Prefill on the tier avx2 beside the peer built without AVX-512: 1.4 times its speed, 1.1 times for Q8_0.
    Avx2,
    /// Decoding of 1B models is as fast as the peer's at least, and reaches 88 % of the read bandwidth.
    Decode,
    /// Decoding without packing reaches 0.8 times the speed of the peer without repacking.
    Unpacked,
    /// SmolLM2-135M: prefill and decoding beside the peer, and 75 % of the read bandwidth.
    Small,
    /// A 1B Q4_0 model after 8192 tokens: prefill 1.6 times the peer's speed, decoding 1.2 times.
    Depth,
    /// 2, 4 and 8 sequences decode together in 1.15 times what memory and arithmetic ask for.
    Batch,
    /// Mixtures of experts in Q4_0 and Q4_K_M: prefill of 512 tokens 1.5 times the peer's speed, decoding as fast at least;
    /// a token streams the experts that it is given to and no others.
    Moe,
    /// The first token of a 1B Q4_0 model comes within 0.6 s of the start of the process, and not after the peer's.
    FirstToken,
}

/// What checks run with.
struct Setup<'a> {
    args: &'a Args,
    programs: Programs,
    default_rounds: u16,
}

impl Setup<'_> {
    /// The generated model of a shape and a type.
    fn model(&self, shape: &str, mix: &str) -> Result<PathBuf> {
        let dir = self.args.models.clone().unwrap_or_else(|| proc::target_dir().join("models"));
        synth::provide(shape, mix, &dir)
    }

    /// Bytes of weights that a token is multiplied by, in a model of a shape and a type.
    fn active_bytes(&self, shape: &str, mix: &str) -> Result<u64> {
        synth::active_bytes(shape, mix)
    }

    fn rounds(&self) -> usize {
        self.args.rounds.unwrap_or(self.default_rounds).into()
    }

    fn threads(&self) -> Result<usize> {
        self.args.threads.map_or_else(|| Ok(std::thread::available_parallelism()?.get()), Ok)
    }

    /// Whether the type was asked for.
    fn wants(&self, mix: &str) -> bool {
        self.args.types.is_empty() || self.args.types.iter().any(|wanted| wanted.eq_ignore_ascii_case(mix))
    }

    /// The program of this name, if it was given.
    fn peer(&self, name: PeerName) -> Option<&Peer> {
        self.args.peer.iter().find(|peer| peer.name == name)
    }

    /// Prints a table and adds it to the file that was asked for.
    fn publish(&self, table: &str) -> Result<()> {
        println!("\n{table}");
        let Some(path) = &self.args.table else { return Ok(()) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{table}"));
        written.with_context(|| format!("cannot write {}", path.display()))
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

    /// Whether the check is one of those that were asked for, or all were.
    fn is_chosen(self, asked: &[Check]) -> bool {
        let of_x86 = self as u8 >= Check::Kernels as u8 || self == Check::Memory;
        let all = asked.is_empty() || asked.contains(&Check::X86) && of_x86;
        self != Check::X86 && (all || asked.contains(&self))
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
            Check::Linear => (true, checks::linear(setup)),
            Check::Kernels => (true, x86::kernels(setup)),
            Check::Batch => (true, x86::batches(setup)),
            Check::FirstToken => (true, x86::first_token(setup)),
            Check::X86
            | Check::Prefill
            | Check::Avx2
            | Check::Decode
            | Check::Unpacked
            | Check::Small
            | Check::Depth
            | Check::Moe => (true, x86::compare(setup, self)),
        };
        let broken = |error| vec![Verdict::broken(&self.name(), &error)];
        let mut verdicts = result.unwrap_or_else(broken);
        if timed && verdicts.iter().any(Verdict::is_made) {
            let quiet = start.and_then(|start| Ok(start.judge(Ticks::now()?, &self.name())));
            verdicts.extend(quiet.map_or_else(broken, |verdict| vec![verdict]));
        }
        verdicts
    }
}

/// Runs the checks.
pub(crate) fn run(args: &Args) -> Result<()> {
    let checks: Vec<Check> =
        Check::value_variants().iter().filter(|check| check.is_chosen(&args.checks)).copied().collect();
    if args.list {
        for check in checks {
            println!("{:<11} {}", check.name(), check.help());
        }
        return Ok(());
    }
    if let Some(path) = &args.table {
        fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut setup = Setup { args, programs: Programs::build()?, default_rounds: ROUNDS };
    let mut verdicts = Vec::new();
    for check in checks {
        let interval = matches!(check, Check::Decode | Check::Moe);
        setup.default_rounds = if interval { INTERVAL_ROUNDS } else { ROUNDS };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_for_its_checks() {
        let chosen = |asked: &[Check]| {
            let all = Check::value_variants().iter();
            all.filter(|check| check.is_chosen(asked)).map(|check| check.name()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chosen(&[Check::Idle, Check::Decode]), "idle decode");
        assert_eq!(
            chosen(&[Check::X86]),
            "memory kernels prefill avx2 decode unpacked small depth batch moe first-token"
        );
        assert!(
            chosen(&[]).starts_with("threads idle memory load tokenize linear kernels"),
            "{}",
            chosen(&[])
        );
    }
}
