//! One measurement in a fresh process, printed as JSON: what `cargo xtask accept` runs where the state that earlier work
//! left in a process would be in the result.

mod batch;
mod engine;
mod kernels;
mod linear;
mod proc;
mod tokenize;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use self::engine::EngineArgs;

/// One measurement in a fresh process, as JSON.
#[derive(Parser)]
#[command(name = "cell", disable_version_flag = true)]
enum Args {
    /// Time and memory of loading, and of the memory after some work.
    Load {
        #[command(flatten)]
        engine: EngineArgs,
    },
    /// Processor time of a session that has finished its work.
    Idle {
        #[command(flatten)]
        engine: EngineArgs,
        /// How long to be idle.
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// A short prompt up to its first token: the time is that of the process.
    First {
        #[command(flatten)]
        engine: EngineArgs,
    },
    /// The step of several sequences that decode together.
    Batch {
        #[command(flatten)]
        engine: EngineArgs,
        /// Sequences.
        #[arg(long, default_value_t = 1)]
        sequences: usize,
    },
    /// The time of layers of linear attention at several depths, and the share of their recurrence in a prompt.
    Linear {
        #[command(flatten)]
        engine: EngineArgs,
        /// Tokens in the context.
        #[arg(long, value_delimiter = ',', required = true)]
        depths: Vec<usize>,
        /// Steps at each depth, of which the median counts.
        #[arg(long, default_value_t = 65)]
        steps: usize,
    },
    /// Rates of the matrix kernels alone, on one core.
    Kernels,
    /// Growth of the time to encode a text, with the vocabulary of a file.
    Tokenize {
        /// The model, a GGUF file.
        model: PathBuf,
    },
}

fn main() -> Result<()> {
    let result = match Args::parse() {
        Args::Load { engine } => engine::measure_load(&engine)?,
        Args::Idle { engine, seconds } => engine::measure_idle(&engine, seconds)?,
        Args::First { engine } => engine::first_token(&engine)?,
        Args::Batch { engine, sequences } => batch::measure(&engine, sequences)?,
        Args::Linear { engine, depths, steps } => linear::measure(&engine, &depths, steps)?,
        Args::Kernels => kernels::measure()?,
        Args::Tokenize { model } => tokenize::measure(&model)?,
    };
    use std::io::Write;
    writeln!(std::io::stdout(), "{result}").context("cannot write to standard output")
}
