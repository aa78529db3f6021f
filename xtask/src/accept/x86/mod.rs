//! What the x86 tiers are held to: the speed of whole models beside llama.cpp and beside the machine's limits, and that of
//! the matrix kernels alone.

mod alone;
mod cases;
mod series;
mod table;

use std::path::PathBuf;

use anyhow::Result;

pub(super) use self::alone::{batches, first_token, kernels};
use self::cases::Model;
use self::series::Series;
use super::verdict::Verdict;
use super::{Check, Setup};
use crate::model;

/// The cases of a check that compares whole models with a peer.
///
/// # Errors
/// If a program fails.
pub(super) fn compare(setup: &Setup<'_>, check: Check) -> Result<Vec<Verdict>> {
    let mut all = Vec::new();
    let mut verdicts = Vec::new();
    for case in cases::all().into_iter().filter(|case| case.check == check && setup.wants(case.model.mix())) {
        let name = case.name();
        let Some(peer) = setup.peer(case.peer()) else {
            verdicts.push(Verdict::skipped(&name, &format!("needs --peer {}=PATH", case.peer_label())));
            continue;
        };
        let path = path_of(setup, case.model)?;
        let mut series = Series::new(case);
        for round in 1..=setup.rounds() {
            println!("   {name}, round {round} of {}", setup.rounds());
            series.run_round(setup, peer, &path)?;
        }
        verdicts.extend(series.judge());
        if let (Model::Mixture(shape, mix), true) = (series.case.model, series.case.asked.only_active) {
            verdicts.push(series.judge_bytes(setup.active_bytes(shape, mix)? as f64));
        }
        all.push(series);
    }
    if !all.is_empty() {
        setup.publish(&table::markdown(&all, setup.rounds()))?;
    }
    Ok(verdicts)
}

/// The file of a model.
fn path_of(setup: &Setup<'_>, wanted: Model) -> Result<PathBuf> {
    match wanted {
        Model::Llama1b(mix) => setup.model("llama-1b", mix),
        Model::Smol("Q4_1") => model::fetch(&model::SMOLLM2, &model::cache_dir()?),
        Model::Smol(mix) => setup.model("smollm2-135m", mix),
        Model::Mixture(shape, mix) => setup.model(shape, mix),
    }
}
