//! `cera perplexity`: how well a model predicts a text.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cera_models::perplexity::{Perplexity, PerplexityEstimate, PerplexityOptions};
use cera_models::tokenizer::{Tokenizer, TokenizerOptions};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::load::LoadArgs;
use super::{KvArg, input};
use crate::output;

/// Arguments of `cera perplexity`. The text is cut, scored and judged as by llama.cpp's `llama-perplexity`, so that the results
/// compare.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// The text.
    #[arg(short, long, value_name = "TEXT")]
    file: PathBuf,
    /// Tokens of a chunk; those of its second half are scored.
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    ctx: usize,
    /// Chunks at most, from the beginning of the text [default: all].
    #[arg(long, value_name = "N")]
    chunks: Option<NonZero<usize>>,
    /// The element type of the KV cache.
    #[arg(long, value_enum, default_value = "f16")]
    kv: KvArg,
    /// Print one JSON object, which also has the estimates after each chunk.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    model: &'a str,
    tier: &'static str,
    threads: usize,
    kv: &'static str,
    ctx: usize,
    chunks: usize,
    tokens_scored: usize,
    perplexity: f64,
    standard_error: Option<f64>,
    seconds: f64,
    /// Perplexities of the text up to each chunk.
    running: Vec<f64>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let text = input::file_text(&args.file)?;
    let model = args.load.load()?;
    let tokenizer = Tokenizer::from_gguf(model.file().meta(), &TokenizerOptions::default())?;
    let options = PerplexityOptions { context: args.ctx, kv: args.kv.into(), chunks: args.chunks };
    let perplexity = Perplexity::new(&model, &tokenizer, &text, options)?;
    let start = Instant::now();
    let estimates = compute(perplexity)?;
    let last = estimates.last().context("no chunk was computed")?;
    let time = start.elapsed();
    match args.json {
        true => output::print_json(&Report {
            model: model.file().name(),
            tier: model.program().runtime().table().tier().label(),
            threads: model.program().runtime().width(),
            kv: options.kv.label(),
            ctx: options.context,
            chunks: last.chunks,
            tokens_scored: last.tokens,
            perplexity: last.perplexity,
            standard_error: last.standard_error,
            seconds: time.as_secs_f64(),
            running: estimates.iter().map(|estimate| estimate.perplexity).collect(),
        }),
        false => output::print(&line(last, args.ctx, time)),
    }
}

/// The estimates after each chunk. A bar on standard error shows progress and the running estimate, if that is a terminal.
fn compute(perplexity: Perplexity<'_>) -> Result<Vec<PerplexityEstimate>> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} chunks, {eta} left, {msg}")?;
    let bar = ProgressBar::new(perplexity.chunks() as u64).with_style(style).with_message("perplexity ...");
    bar.tick();
    let mut estimates = Vec::new();
    for estimate in perplexity {
        let estimate = estimate.inspect_err(|_| bar.finish_and_clear())?;
        bar.set_message(format!("perplexity {}", shown(&estimate)));
        bar.inc(1);
        estimates.push(estimate);
    }
    bar.finish_and_clear();
    Ok(estimates)
}

/// The perplexity with its error bar, if it has one.
fn shown(estimate: &PerplexityEstimate) -> String {
    let error = estimate.standard_error.map(|error| format!(" ± {error:.4}")).unwrap_or_default();
    format!("{:.4}{error}", estimate.perplexity)
}

fn line(last: &PerplexityEstimate, ctx: usize, time: Duration) -> String {
    let PerplexityEstimate { chunks, tokens, .. } = last;
    let (shown, seconds) = (shown(last), time.as_secs_f64());
    format!("perplexity {shown} ({chunks} chunks of {ctx} tokens, {tokens} tokens scored, {seconds:.1} s)\n")
}
