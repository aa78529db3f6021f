//! Running one test once.

use std::time::{Duration, Instant};

use anyhow::Result;
use cera_core::{KernelHits, SeqState, SeqStep, Want, roofline};
use cera_models::Model;
use cera_quant::kv::KvType;

/// Memory that the bandwidth probe reads: more than a last-level cache.
const PROBE_BYTES: usize = 256 << 20;

/// Rounds of a probe, of which the best counts.
const PROBE_ROUNDS: usize = 5;

/// A test: a prompt or a generation, at some depth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) kv: KvType,
    pub(super) depth: usize,
    pub(super) n_prompt: usize,
    pub(super) n_gen: usize,
}

/// What one run of a test took, and what the machine gave right after it.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) time: Duration,
    /// Bytes per second that all threads read.
    pub(super) bandwidth: f64,
    /// Integer products per second that all threads add up, if the tier has an instruction for it.
    pub(super) integer_peak: Option<f64>,
    pub(super) hits: Vec<KernelHits>,
}

/// Runs a test on a fresh sequence. The context up to the depth is not timed.
pub(super) fn run(model: &Model, case: &Case) -> Result<Sample> {
    let runtime = model.program().runtime();
    let mut state = at_depth(model, case)?;
    runtime.reset_hits();
    let start = Instant::now();
    for tokens in steps_of(model, case) {
        step(model, &mut state, &tokens, Want::Last)?;
    }
    let time = start.elapsed();
    let bandwidth = roofline::read_bandwidth(runtime.width(), PROBE_BYTES, PROBE_ROUNDS)?;
    let integer_peak = roofline::integer_peak(runtime.table(), runtime.width(), PROBE_ROUNDS);
    Ok(Sample { time, bandwidth, integer_peak, hits: runtime.hits() })
}

/// A sequence with the context of a test.
pub(super) fn at_depth(model: &Model, case: &Case) -> Result<SeqState> {
    let mut state = model.program().new_state(case.kv, case.depth + case.n_prompt + case.n_gen);
    let context: Vec<u32> = (0..case.depth).map(|i| token(model, i)).collect();
    step(model, &mut state, &context, Want::None)?;
    Ok(state)
}

/// The tokens of every step of a test after its context.
pub(super) fn steps_of(model: &Model, case: &Case) -> impl Iterator<Item = Vec<u32>> {
    let prompt = (case.n_prompt > 0).then_some(case.depth..case.depth + case.n_prompt);
    let generated = (0..case.n_gen).map(move |i| case.depth + i..case.depth + i + 1);
    prompt.into_iter().chain(generated).map(|positions| positions.map(|i| token(model, i)).collect())
}

fn token(model: &Model, position: usize) -> u32 {
    ((position * 7919 + 17) % model.vocabulary()) as u32
}

fn step(model: &Model, state: &mut SeqState, tokens: &[u32], want: Want) -> Result<()> {
    let steps = &mut [SeqStep { state, tokens, want }];
    model.step(steps)?;
    Ok(())
}
