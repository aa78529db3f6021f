//! A model with a prompt and some tokens: time, memory, idling.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cera_core::width::ThreadCount;
use cera_core::{Runtime, SeqState, SeqStep, Settings, Want};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::proc;

/// A model and how it is loaded.
#[derive(clap::Args)]
pub(crate) struct EngineArgs {
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
/// Tokens of the prompt before a first token.
const SHORT_PROMPT: usize = 16;
/// How long workers may take to go to sleep.
const SETTLE: Duration = Duration::from_millis(500);

impl EngineArgs {
    /// The model, loaded.
    pub(crate) fn load(&self) -> Result<Model> {
        let mut settings = Settings::from_env()?;
        if let Some(threads) = self.threads {
            settings.threads.set_argument(threads);
        }
        let runtime: Arc<Runtime> = Runtime::from_settings(&settings)?;
        let load = match self.mode {
            Mode::Map => LoadMode::Map,
            Mode::Read => LoadMode::Read,
        };
        let options = ModelOptions { load, repack: !self.no_repack, ..ModelOptions::default() };
        Ok(Model::load(&self.model, runtime, options)?)
    }
}

/// The token at a position of every text here.
pub(crate) fn token(model: &Model, position: usize) -> u32 {
    ((position * 7919 + 17) % model.vocabulary()) as u32
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A prompt and some tokens, with the time that each step took.
fn work(model: &Model) -> Result<(SeqState, Vec<Duration>)> {
    let mut state = model.program().new_state(KvType::F16, PROMPT + GENERATED);
    let prompt: Vec<u32> = (0..PROMPT).map(|i| token(model, i)).collect();
    let mut times = Vec::new();
    for tokens in std::iter::once(prompt).chain((0..GENERATED).map(|i| vec![token(model, PROMPT + i)])) {
        let start = Instant::now();
        model.step(&mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::Last }])?;
        times.push(start.elapsed());
    }
    Ok((state, times))
}

pub(crate) fn measure_load(args: &EngineArgs) -> Result<Value> {
    let model = args.load()?;
    let stats = model.load_stats();
    let loaded = proc::memory()?;
    let (state, times) = work(&model)?;
    let settled = proc::memory()?;
    let largest = model.file().tensors().iter().map(|tensor| tensor.byte_len()).max();
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

pub(crate) fn measure_idle(args: &EngineArgs, seconds: f64) -> Result<Value> {
    let Ok(wait) = Duration::try_from_secs_f64(seconds) else {
        bail!("{seconds} seconds are no time to be idle")
    };
    let model = args.load()?;
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

/// The likeliest token after a short prompt.
pub(crate) fn first_token(args: &EngineArgs) -> Result<Value> {
    let model = args.load()?;
    let mut state = model.program().new_state(KvType::F16, SHORT_PROMPT);
    let tokens: Vec<u32> = (0..SHORT_PROMPT).map(|i| token(&model, i)).collect();
    let logits = model.step(&mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::Last }])?;
    let best = logits.data().iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    Ok(json!({ "token": best.map(|(token, _)| token) }))
}
