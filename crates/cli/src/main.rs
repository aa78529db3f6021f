//! The `cera` command.
//!
//! Exit codes: 0 done, 1 failed with one line on standard error, 2 wrong usage.

mod cmd;
mod output;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use cera_core::settings::{LOG_VARIABLE, Settings};
use clap::{CommandFactory, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Runs quantized language models on CPUs.
#[derive(Parser)]
#[command(name = "cera", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure prompt and generation speed.
    Bench(cmd::bench::Args),
    /// Talk with a model.
    Chat(cmd::chat::Args),
    /// Print the completions of a shell.
    Completions(cmd::completions::Args),
    /// Compute the logits of a token sequence.
    Logits(cmd::logits::Args),
    /// Show a model file: metadata, tensors, and the kernel that each tensor takes.
    Inspect(cmd::inspect::Args),
    /// Measure how well a model predicts a text.
    Perplexity(cmd::perplexity::Args),
    /// Answer a prompt.
    Run(cmd::run::Args),
    /// Show this CPU, the tier that runs and why, and the kernels of its table.
    Tiers(cmd::tiers::Args),
    /// Convert text to token ids and back.
    Tokenize(cmd::tokenize::Args),
}

/// Sends messages to standard error, those that the settings ask for.
fn start_log() -> Result<()> {
    let settings = Settings::from_env()?;
    let filter = settings.log.get().map_or("warn", |filter| filter.get());
    // The error's own text has that of its causes.
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow!("{LOG_VARIABLE}: {filter:?} is not a filter of messages: {error}"))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    Ok(())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let run = || match &cli.command {
        Command::Bench(args) => cmd::bench::run(args),
        Command::Chat(args) => cmd::chat::run(args),
        Command::Completions(args) => cmd::completions::run(args, Cli::command()),
        Command::Logits(args) => cmd::logits::run(args),
        Command::Inspect(args) => cmd::inspect::run(args),
        Command::Perplexity(args) => cmd::perplexity::run(args),
        Command::Run(args) => cmd::run::run(args),
        Command::Tiers(args) => cmd::tiers::run(args),
        Command::Tokenize(args) => cmd::tokenize::run(args),
    };
    match start_log().and_then(|()| run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}
