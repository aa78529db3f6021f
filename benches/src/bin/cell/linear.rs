//! The time that layers of linear attention take at several depths of the context, and their recurrence in a prompt.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use cera_core::{PhaseTime, SeqState, SeqStep, Want};
use cera_models::Model;
use cera_quant::kv::KvType;
use serde_json::{Value, json};

use crate::engine::{EngineArgs, nanos, token};

/// How a phase of a recurrence calls its work.
const RECURRENCE: &str = "recurrence";
/// Tokens of the prompt, and how often it is run.
const PROMPT: usize = 512;
const PROMPTS: usize = 5;

/// A sequence that decodes, and what its steps took: layers of linear attention, and their recurrence alone.
struct Deep {
    state: SeqState,
    layers: Vec<u64>,
    recurrence: Vec<u64>,
}

/// The median times of `steps` steps at each depth, taking turns, and the median share of the recurrence in the prompts.
pub(crate) fn measure(args: &EngineArgs, depths: &[usize], steps: usize) -> Result<Value> {
    let model = args.load()?;
    let shares = (0..PROMPTS).map(|_| share_of_prompt(&model)).collect::<Result<Vec<f64>>>()?;
    let mut sequences =
        depths.iter().map(|&depth| at_depth(&model, depth, steps)).collect::<Result<Vec<_>>>()?;
    for _ in 0..steps {
        for Deep { state, layers, recurrence } in &mut sequences {
            let tokens = [token(&model, state.len())];
            let times = step(&model, state, &tokens)?;
            layers.push(nanos(of_linear_layers(&times)));
            recurrence.push(nanos(of_recurrence(&times)));
        }
    }
    let median = |times: &Vec<u64>| {
        let mut sorted = times.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    let mut shares = shares;
    shares.sort_by(f64::total_cmp);
    Ok(json!({
        "depths": depths,
        "layers_ns": sequences.iter().map(|deep| median(&deep.layers)).collect::<Vec<_>>(),
        "recurrence_ns": sequences.iter().map(|deep| median(&deep.recurrence)).collect::<Vec<_>>(),
        "prompt_share": shares[PROMPTS / 2],
    }))
}

fn at_depth(model: &Model, depth: usize, steps: usize) -> Result<Deep> {
    let mut state = model.program().new_state(KvType::F16, depth + steps);
    let tokens: Vec<u32> = (0..depth).map(|i| token(model, i)).collect();
    model.step(&mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::None }])?;
    Ok(Deep { state, layers: Vec::new(), recurrence: Vec::new() })
}

/// The share of the recurrence in the time of a prompt.
fn share_of_prompt(model: &Model) -> Result<f64> {
    let mut state = model.program().new_state(KvType::F16, PROMPT);
    let tokens: Vec<u32> = (0..PROMPT).map(|i| token(model, i)).collect();
    let times = step(model, &mut state, &tokens)?;
    ensure!(
        times.iter().any(|phase| phase.work == RECURRENCE),
        "the model has no layers of linear attention"
    );
    let all: Duration = times.iter().map(|phase| phase.time).sum();
    Ok(of_recurrence(&times).as_secs_f64() / all.as_secs_f64())
}

fn step(model: &Model, state: &mut SeqState, tokens: &[u32]) -> Result<Vec<PhaseTime>> {
    let steps = &mut [SeqStep { state, tokens, want: Want::Last }];
    Ok(model.program().step_timed(steps)?.1)
}

fn of_recurrence(times: &[PhaseTime]) -> Duration {
    times.iter().filter(|phase| phase.work == RECURRENCE).map(|phase| phase.time).sum()
}

/// The time of all phases of the layers that have a recurrence.
fn of_linear_layers(times: &[PhaseTime]) -> Duration {
    let recurrences = times.iter().filter(|phase| phase.work == RECURRENCE);
    let layers: BTreeSet<&str> = recurrences.filter_map(|phase| layer(&phase.value)).collect();
    let of_these = |phase: &&PhaseTime| layer(&phase.value).is_some_and(|layer| layers.contains(layer));
    times.iter().filter(of_these).map(|phase| phase.time).sum()
}

/// The layer that a value belongs to, by its name.
fn layer(value: &str) -> Option<&str> {
    value.strip_prefix("blk.")?.split('.').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_a_recurrence_count_whole() {
        let phase = |work, value: &str, ms| PhaseTime {
            work,
            value: value.to_owned(),
            time: Duration::from_millis(ms),
        };
        let times = [
            phase("local", "hidden.0", 1),
            phase("products", "blk.1.attn_qkv", 2),
            phase(RECURRENCE, "blk.1.delta", 4),
            phase("products", "blk.1.ffn", 8),
            phase("attention", "blk.11.attn", 16),
            phase(RECURRENCE, "blk.2.delta", 32),
        ];
        assert_eq!(of_recurrence(&times), Duration::from_millis(36));
        assert_eq!(of_linear_layers(&times), Duration::from_millis(2 + 4 + 8 + 32));
    }
}
