//! `cera bench`: prompt and generation speed.

mod measure;
mod profile;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};
use cera_models::{Model, ModelOptions};

use self::measure::{Case, Sample};
use self::report::{Format, Row};
use super::KvArg;
use super::load::{MemoryArg, ThreadArgs};
use crate::output;

/// Arguments of `cera bench`. Lists make a matrix.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The models, GGUF files.
    #[arg(short, long, value_name = "FILE", value_delimiter = ',', required = true)]
    model: Vec<PathBuf>,
    /// Tokens of the prompt; 0 for no prompt test.
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_value = "512")]
    n_prompt: Vec<usize>,
    /// Tokens to generate; 0 for no generation test.
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_value = "128")]
    n_gen: Vec<usize>,
    /// Tokens already in the context.
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_value = "0")]
    depth: Vec<usize>,
    /// Samples of each test. All tests of a model are run once before any is repeated.
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Element types of the KV cache.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "f16")]
    kv: Vec<KvArg>,
    /// Tokens of a prefill pass at most.
    #[arg(long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: u32,
    /// Do not pack the weights at load.
    #[arg(long, conflicts_with = "memory")]
    no_repack: bool,
    #[command(flatten)]
    memory: MemoryArg,
    /// Do not run each test once, uncounted, before the samples.
    #[arg(long)]
    no_warmup: bool,
    /// In place of the speed, tell how the time of each test is shared out over the work of a step. Its phases are
    /// dispatched one by one, which takes longer.
    #[arg(long, conflicts_with_all = ["output", "no_warmup"])]
    profile: bool,
    /// How to write the results.
    #[arg(short, long, value_enum, default_value = "md")]
    output: Format,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = args.threads.runtime()?;
    let mut rows = Vec::new();
    for path in &args.model {
        let options = ModelOptions {
            repack: !args.no_repack,
            memory: args.memory.bytes(),
            program: cera_core::ProgramOptions { chunk: args.chunk as usize, ..Default::default() },
            ..ModelOptions::default()
        };
        let model = Model::load(path, runtime.clone(), options)?;
        if args.profile {
            for case in cases(args) {
                output::print(&profile::run(&model, &case, args.repetitions)?)?;
            }
            continue;
        }
        rows.extend(bench(args, &model).with_context(|| path.display().to_string())?);
    }
    if args.profile { Ok(()) } else { output::print(&report::write(args.output, &rows)?) }
}

/// Every test of one model, in rounds.
fn bench(args: &Args, model: &Model) -> Result<Vec<Row>> {
    let cases = cases(args);
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); cases.len()];
    let warmups = u16::from(!args.no_warmup);
    for round in 0..warmups + args.repetitions {
        for (case, samples) in cases.iter().zip(&mut samples) {
            let sample = measure::run(model, case)?;
            if round >= warmups {
                samples.push(sample);
            }
        }
    }
    Ok(cases.iter().zip(&samples).map(|(case, samples)| Row::new(model, case, samples)).collect())
}

fn cases(args: &Args) -> Vec<Case> {
    let mut cases = Vec::new();
    for &kv in &args.kv {
        for &depth in &args.depth {
            let case = |n_prompt, n_gen| Case { kv: kv.into(), depth, n_prompt, n_gen };
            cases.extend(args.n_prompt.iter().filter(|&&n| n > 0).map(|&n| case(n, 0)));
            cases.extend(args.n_gen.iter().filter(|&&n| n > 0).map(|&n| case(0, n)));
        }
    }
    cases
}
