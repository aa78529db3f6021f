//! The matrix kernels alone, on one core.

use std::time::Instant;

use anyhow::{Context, Result};
use cera_benches::{product, table};
use cera_core::roofline;
use cera_quant::Format;
use serde_json::{Value, json};

/// Weight rows, tokens, elements per row.
const SHAPE: (usize, usize, usize) = (2048, 512, 2048);
/// Alternations of the peak and a kernel.
const ROUNDS: usize = 15;
/// Runs of a kernel in a round.
const RUNS: u32 = 3;

/// Products per second of the integer dot instruction, time after time, and the shares of it that the kernel for several
/// tokens of every format reached, each of the peak right before and after.
pub(crate) fn measure() -> Result<Value> {
    let table = table()?;
    let (m, n, k) = SHAPE;
    let peak = || roofline::integer_peak(&table, 1, 1).context("the tier has no integer dot product");
    let mut peaks = vec![peak()?];
    let mut shares = Vec::new();
    for format in Format::ALL {
        let mut work = product(&table, format, SHAPE);
        let mut of_format = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..RUNS {
                std::hint::black_box(work.run(&table));
            }
            let rate = f64::from(RUNS) * (m * n * k) as f64 / start.elapsed().as_secs_f64();
            let (before, after) = (peaks[peaks.len() - 1], peak()?);
            of_format.push(rate / f64::midpoint(before, after));
            peaks.push(after);
        }
        shares.push((format.label(), of_format));
    }
    Ok(json!({ "tier": table.tier().label(), "peaks": peaks, "shares": shares }))
}
