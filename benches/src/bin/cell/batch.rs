//! Several sequences that decode together.

use std::time::Instant;

use anyhow::Result;
use cera_core::{SeqState, SeqStep, Want, roofline};
use cera_quant::kv::KvType;
use serde_json::{Value, json};

use crate::engine::{EngineArgs, nanos, token};

/// Tokens that each sequence has before it decodes.
const PROMPT: usize = 16;
/// Steps, of which the median counts.
const STEPS: usize = 33;
/// Memory that the bandwidth probe reads, and rounds of the probes.
const PROBE_BYTES: usize = 256 << 20;
const PROBE_ROUNDS: usize = 5;

/// The median time of a step, what it reads and adds up, and what the machine gave right after.
pub(crate) fn measure(args: &EngineArgs, sequences: usize) -> Result<Value> {
    let model = args.load()?;
    let program = model.program();
    let runtime = program.runtime();
    let mut states: Vec<SeqState> =
        (0..sequences).map(|_| program.new_state(KvType::F16, PROMPT + STEPS)).collect();
    let mut times = Vec::new();
    for step in 0..=STEPS {
        // The first step is the prompts.
        let positions = if step == 0 { 0..PROMPT } else { PROMPT + step - 1..PROMPT + step };
        let tokens: Vec<u32> = positions.map(|position| token(&model, position)).collect();
        let mut steps: Vec<SeqStep<'_>> =
            states.iter_mut().map(|state| SeqStep { state, tokens: &tokens, want: Want::Last }).collect();
        let start = Instant::now();
        model.step(&mut steps)?;
        if step > 0 {
            times.push(nanos(start.elapsed()));
        }
    }
    times.sort_unstable();
    let infos = program.graph().matrices().iter().zip(program.weights());
    let weights: usize = infos
        .filter(|(info, _)| info.matmul)
        .map(|(_, w)| w.m() * w.format().row_bytes(w.k()).unwrap_or(0))
        .sum();
    let cache = program.graph().state().bytes(KvType::F16, PROMPT + STEPS / 2);
    Ok(json!({
        "step_ns": times[times.len() / 2],
        "bytes": weights + sequences * cache,
        "macs": program.graph().product_macs(sequences, sequences),
        "read_bandwidth": roofline::read_bandwidth(runtime.width(), PROBE_BYTES, PROBE_ROUNDS)?,
        "integer_peak": roofline::integer_peak(runtime.table(), runtime.width(), PROBE_ROUNDS),
    }))
}
