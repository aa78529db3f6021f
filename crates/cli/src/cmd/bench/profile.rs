//! How the time of a test is shared out over the work of a step.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use cera_core::{PhaseTime, SeqStep, Want};
use cera_models::Model;

use super::measure::{self, Case};

/// Runs a test so many times and once before, uncounted, and gives a table of what its work took in the quickest run.
pub(super) fn run(model: &Model, case: &Case, repetitions: u16) -> Result<String> {
    measure::run(model, case)?;
    let mut quickest: Option<BTreeMap<String, Duration>> = None;
    for _ in 0..repetitions {
        let times = once(model, case)?;
        let sum = |times: &BTreeMap<String, Duration>| times.values().sum::<Duration>();
        if quickest.as_ref().is_none_or(|quickest| sum(&times) < sum(quickest)) {
            quickest = Some(times);
        }
    }
    table(&quickest.unwrap_or_default())
}

/// The time of each kind of work in one run.
fn once(model: &Model, case: &Case) -> Result<BTreeMap<String, Duration>> {
    let mut state = measure::at_depth(model, case)?;
    let mut all: BTreeMap<String, Duration> = BTreeMap::new();
    for tokens in measure::steps_of(model, case) {
        let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::Last }];
        for phase in model.program().step_timed(steps)?.1 {
            *all.entry(kind(&phase)).or_default() += phase.time;
        }
    }
    Ok(all)
}

/// The work and the first value of a phase, without the layer.
fn kind(phase: &PhaseTime) -> String {
    let value = match phase.value.strip_prefix("blk.").and_then(|value| value.split_once('.')) {
        Some((_, value)) => value,
        None if phase.value.starts_with("hidden.") => "hidden",
        None => &phase.value,
    };
    format!("{} {value}", phase.work)
}

fn table(times: &BTreeMap<String, Duration>) -> Result<String> {
    let all: Duration = times.values().sum();
    let mut sorted: Vec<_> = times.iter().collect();
    sorted.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
    let mut text = String::from("| work | ms | share |\n|---|---:|---:|\n");
    for (work, time) in sorted {
        let share = 100.0 * time.as_secs_f64() / all.as_secs_f64();
        writeln!(text, "| {work} | {:.2} | {share:.1} % |", 1e3 * time.as_secs_f64())?;
    }
    writeln!(text, "| all | {:.2} | |", 1e3 * all.as_secs_f64())?;
    Ok(text)
}
