//! The matrix kernels alone, on one core.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cera_benches::{product, table};
use cera_core::roofline;
use cera_quant::Format;
use serde_json::{Value, json};

/// Weight rows, tokens, elements per row.
const SHAPE: (usize, usize, usize) = (2048, 512, 2048);
/// Times of which the best counts.
const ROUNDS: usize = 9;

/// Products per second of the integer dot instruction, and of the kernel for several tokens of every format.
pub(crate) fn measure() -> Result<Value> {
    let table = table()?;
    let (m, n, k) = SHAPE;
    let mut rates = Vec::new();
    let mut peak = 0.0f64;
    for format in Format::ALL {
        let mut work = product(&table, format, SHAPE);
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            std::hint::black_box(work.run(&table));
            best = best.min(start.elapsed());
        }
        rates.push((format.label(), (m * n * k) as f64 / best.as_secs_f64()));
        peak = peak
            .max(roofline::integer_peak(&table, 1, ROUNDS).context("the tier has no integer dot product")?);
    }
    Ok(json!({ "tier": table.tier().label(), "peak": peak, "rates": rates }))
}
