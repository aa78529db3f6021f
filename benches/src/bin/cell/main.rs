//! One measurement in a fresh process, printed as JSON: what `cargo xtask accept` runs where the state that earlier work
//! left in a process would be in the result.

mod proc;
mod tokenize;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cera_core::width::ThreadCount;
use cera_core::{Runtime, SeqState, SeqStep, Settings, Want};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

/// One measurement in a fresh process, as JSON.
#[derive(Parser)]
#[command(name = "cell", disable_version_flag = true)]
struct Args {
    /// What to measure.
    what: What,
    /// The model, a GGUF file.
    model: PathBuf,
    /// Threads.
    #[arg(long)]
    threads: Option<ThreadCount>,
    /// How the file is brought into memory.
    #[arg(long, value_enum, default_value = "map")]
    mode: Mode,
    /// Do not pack the weights at load.
    #[arg(long)]
    no_repack: bool,
    /// How long to be idle.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Time and memory of loading, and of the memory after some work.
    Load,
    /// Processor time of a session that has finished its work.
    Idle,
    /// Growth of the time to encode a text, with the vocabulary of the file.
    Tokenize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Mapped.
    Map,
    /// Read.
    Read,
}

/// Tokens of the prompt.
const PROMPT: usize = 64;
/// Tokens generated after it.
const GENERATED: usize = 8;
/// How long workers may take to go to sleep.
const SETTLE: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let args = Args::parse();
    let result = match args.what {
        What::Load => measure_load(&args)?,
        What::Idle => measure_idle(&args)?,
        What::Tokenize => tokenize::measure(&args.model)?,
    };
    use std::io::Write;
    writeln!(std::io::stdout(), "{result}").context("cannot write to standard output")
}

fn load(args: &Args) -> Result<Model> {
    let mut settings = Settings::from_env()?;
    if let Some(threads) = args.threads {
        settings.threads.set_argument(threads);
    }
    let runtime: Arc<Runtime> = Runtime::from_settings(&settings)?;
    let load = match args.mode {
        Mode::Map => LoadMode::Map,
        Mode::Read => LoadMode::Read,
    };
    let options = ModelOptions { load, repack: !args.no_repack, ..ModelOptions::default() };
    Ok(Model::load(&args.model, runtime, options)?)
}

/// A prompt and some tokens, with the time that each step took.
fn work(model: &Model) -> Result<(SeqState, Vec<Duration>)> {
    let mut state = model.program().new_state(KvType::F16, PROMPT + GENERATED);
    let token = |i: usize| ((i * 7919 + 17) % model.vocabulary()) as u32;
    let prompt: Vec<u32> = (0..PROMPT).map(token).collect();
    let mut times = Vec::new();
    for tokens in std::iter::once(prompt).chain((0..GENERATED).map(|i| vec![token(PROMPT + i)])) {
        let start = Instant::now();
        model.step(&mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::Last }])?;
        times.push(start.elapsed());
    }
    Ok((state, times))
}

fn measure_load(args: &Args) -> Result<Value> {
    let model = load(args)?;
    let stats = model.load_stats();
    let loaded = proc::memory()?;
    let (state, times) = work(&model)?;
    let settled = proc::memory()?;
    let largest = model.file().tensors().iter().map(|tensor| tensor.byte_len()).max();
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(json!({
        "file_bytes": stats.file_bytes,
        "packed_bytes": stats.packed_bytes,
        "largest_tensor": largest,
        "open_ns": nanos(stats.open),
        "pack_ns": nanos(stats.pack),
        "loaded_bytes": loaded.resident,
        "loaded_peak_bytes": loaded.peak,
        "settled_bytes": settled.resident,
        "settled_peak_bytes": settled.peak,
        "state_bytes": state.bytes(),
        "workspace_bytes": model.program().workspace_bytes(PROMPT),
        "step_ns": times.into_iter().map(nanos).collect::<Vec<_>>(),
    }))
}

fn measure_idle(args: &Args) -> Result<Value> {
    let Ok(wait) = Duration::try_from_secs_f64(args.seconds) else {
        bail!("{} seconds are no time to be idle", args.seconds)
    };
    let model = load(args)?;
    let (_state, _) = work(&model)?;
    std::thread::sleep(SETTLE);
    let (start, before) = (Instant::now(), proc::cpu_time()?);
    std::thread::sleep(wait);
    let (wall, after) = (start.elapsed(), proc::cpu_time()?);
    Ok(json!({
        "threads": model.program().runtime().width(),
        "wall_seconds": wall.as_secs_f64(),
        "cpu_seconds": after.saturating_sub(before).as_secs_f64(),
    }))
}
