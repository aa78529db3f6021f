//! What is measured of cera in processes of its own: matrix kernels, batches, the first token.

use anyhow::{Context, Result};

use crate::accept::Setup;
use crate::accept::peer::PeerName;
use crate::accept::programs::{BatchCell, KernelsCell};
use crate::accept::verdict::{Limit, Unit, Verdict, median};

/// The share of one core's integer peak that a matrix kernel reaches, by format.
const KERNEL_LIMITS: [(&str, f64); 10] = [
    ("Q4_0", 0.75),
    ("Q8_0", 0.75),
    ("Q4_K", 0.75),
    ("Q6_K", 0.75),
    ("Q4_1", 0.67),
    ("Q5_0", 0.67),
    ("Q5_1", 0.67),
    ("Q5_K", 0.67),
    ("IQ4_NL", 0.67),
    ("MXFP4", 0.67),
];

/// Sequences that decode together.
const BATCHES: [usize; 3] = [2, 4, 8];
/// How much longer their step may take than memory and arithmetic ask for.
const BATCH_LIMIT: f64 = 1.15;
/// The share of the integer peak that arithmetic is reckoned with.
const BATCH_PEAK: f64 = 0.62;

/// Seconds from the start of the process to the first token.
const FIRST_TOKEN_LIMIT: f64 = 0.6;
/// Tokens of the prompt before it.
const FIRST_TOKEN_PROMPT: &str = "16";

/// Matrix kernels alone, on one core.
///
/// # Errors
/// If the measuring program fails.
pub(in crate::accept) fn kernels(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let cell: KernelsCell = setup.programs.cell("kernels", None, &[])?;
    let peak = 1e-9 * median(cell.peaks);
    let share = |format: &str| {
        let found = cell.shares.iter().find(|(name, _)| name == format);
        found
            .map(|(_, shares)| median(shares.clone()))
            .with_context(|| format!("the kernel of {format} was not measured"))
    };
    KERNEL_LIMITS
        .into_iter()
        .filter(|(format, _)| setup.wants(format))
        .map(|(format, least)| {
            let note = format!("of the {peak:.0} GMAC/s of one core, {}", cell.tier);
            let share = (share(format)?, Unit::Percent);
            Ok(Verdict::judge(&format!("kernels-{format}"), share, Limit::AtLeast(least), &note))
        })
        .collect()
}

/// Several sequences that decode together.
///
/// # Errors
/// If the measuring program fails.
pub(in crate::accept) fn batches(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("llama-1b", "Q4_0")?;
    let threads = setup.threads()?.to_string();
    BATCHES
        .into_iter()
        .map(|sequences| {
            let args = ["--sequences", &sequences.to_string(), "--threads", &threads];
            let mut ratios = Vec::new();
            let mut last = None;
            for _ in 0..setup.rounds() {
                let cell: BatchCell = setup.programs.cell("batch", Some(&model), &args)?;
                ratios.push(1e-9 * cell.step_ns / seconds_needed(&cell));
                last = Some(cell);
            }
            let cell = last.context("no round was run")?;
            let note = format!(
                "times the longer of memory and arithmetic: {:.2} ms a step; {:.1} GB/s, {:.0} GMAC/s",
                1e-6 * cell.step_ns,
                1e-9 * cell.read_bandwidth,
                1e-9 * cell.integer_peak.unwrap_or(f64::NAN)
            );
            let ratio = (median(ratios), Unit::Times);
            Ok(Verdict::judge(&format!("batch-{sequences}"), ratio, Limit::AtMost(BATCH_LIMIT), &note))
        })
        .collect()
}

/// What a step of a batch takes at least.
fn seconds_needed(cell: &BatchCell) -> f64 {
    let memory = cell.bytes / cell.read_bandwidth;
    let arithmetic = cell.integer_peak.map_or(0.0, |peak| cell.macs / (BATCH_PEAK * peak));
    memory.max(arithmetic)
}

/// From the start of the process to the first token, the file in the system's cache.
///
/// # Errors
/// If a program fails.
pub(in crate::accept) fn first_token(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("llama-1b", "Q4_0")?;
    let threads = setup.threads()?.to_string();
    let own = || setup.programs.cell_time("first", &model, &["--threads", &threads]);
    let peer = setup.peer(PeerName::LlamaBench);
    let args =
        ["-p", FIRST_TOKEN_PROMPT, "-n", "0", "-r", "1", "--no-warmup", "-t", &threads].map(str::to_owned);
    // The first brings the file into the system's cache.
    own()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..setup.rounds() {
        ours.push(own()?.as_secs_f64());
        if let Some(peer) = peer {
            theirs.push(peer.bench(&model, &args)?.1.as_secs_f64());
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let time = (ours, Unit::Seconds);
    let beside = match peer {
        None => Verdict::skipped("first-token-beside-peer", "needs --peer llama-bench=PATH"),
        Some(_) => {
            let note = format!("times as long as the peer's process, which takes {theirs:.3} s");
            Verdict::judge("first-token-beside-peer", (ours / theirs, Unit::Times), Limit::AtMost(1.0), &note)
        }
    };
    let note = "from the start of the process, a prompt of 16 tokens";
    Ok(vec![Verdict::judge("first-token", time, Limit::AtMost(FIRST_TOKEN_LIMIT), note), beside])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_the_longer_of_memory_and_arithmetic() {
        let cell =
            BatchCell { step_ns: 1e7, bytes: 6e8, macs: 2e9, read_bandwidth: 6e10, integer_peak: Some(1e12) };
        assert!((seconds_needed(&cell) - 0.01).abs() < 1e-12);
        let many = BatchCell { macs: 16e9, ..cell.clone() };
        assert!((seconds_needed(&many) - 16e9 / 0.62e12).abs() < 1e-12);
        assert!((seconds_needed(&BatchCell { integer_peak: None, ..many }) - 0.01).abs() < 1e-12);
    }
}
