//! Statistics and output of a bench.

use std::fmt::Write;

use anyhow::Result;
use cera_core::Matrix;
use cera_models::Model;
use serde::Serialize;

use super::measure::{Case, Sample};

/// How to write the results.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Format {
    /// A Markdown table.
    Md,
    /// A JSON array of objects with llama-bench's names.
    Json,
    /// Comma-separated values.
    Csv,
}

/// One test with its samples. Speeds are tokens per second.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    model_filename: String,
    model_type: String,
    model_size: usize,
    model_n_params: usize,
    tier: &'static str,
    n_threads: usize,
    type_kv: &'static str,
    n_prompt: usize,
    n_gen: usize,
    n_depth: usize,
    avg_ts: f64,
    stddev_ts: f64,
    median_ts: f64,
    min_ts: f64,
    max_ts: f64,
    samples_ns: Vec<u64>,
    samples_ts: Vec<f64>,
    /// Bytes of weights and of the cache that a token streams, in generation tests.
    bytes_per_token: Option<usize>,
    /// Bytes per second that the probe read after each sample, in the median.
    read_bandwidth: f64,
    /// The share of that bandwidth which the weights and the cache streamed per token account for, in generation tests.
    bandwidth_share: Option<f64>,
    /// Products per second that the tier's integer dot instruction added up after each sample, in the median.
    integer_peak: Option<f64>,
    /// The share of that rate which the matrix products account for, in prompt tests.
    peak_share: Option<f64>,
    /// Calls per kernel in the last sample.
    kernels: Vec<(String, u64)>,
    load_open_ns: u64,
    load_pack_ns: u64,
    /// Bytes of weights that were packed, and of those that are read as they stand in the file.
    load_packed_bytes: usize,
    load_plain_bytes: usize,
}

impl Row {
    pub(super) fn new(model: &Model, case: &Case, samples: &[Sample]) -> Row {
        let tokens = (case.n_prompt + case.n_gen) as f64;
        let speeds: Vec<f64> = samples.iter().map(|s| tokens / s.time.as_secs_f64()).collect();
        let n = speeds.len() as f64;
        let mean = speeds.iter().sum::<f64>() / n;
        let spread = speeds.iter().map(|ts| (ts - mean) * (ts - mean)).sum::<f64>();
        let median_ts = median(&speeds);
        let read_bandwidth = median(&samples.iter().map(|s| s.bandwidth).collect::<Vec<_>>());
        let program = model.program();
        let bytes = (case.n_gen > 0).then(|| bytes_per_token(model, case));
        let peaks: Option<Vec<f64>> = samples.iter().map(|s| s.integer_peak).collect();
        let integer_peak = peaks.map(|peaks| median(&peaks));
        let macs_per_token = program.graph().product_macs(case.n_prompt, 1) as f64 / case.n_prompt as f64;
        let stats = model.load_stats();
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let hits = samples.last().map(|s| s.hits.as_slice()).unwrap_or_default();
        Row {
            model_filename: model.file().name().to_owned(),
            model_type: model_type(model),
            model_size: stats.file_bytes,
            model_n_params: program.weights().iter().map(Matrix::elements).sum(),
            tier: program.runtime().table().tier().label(),
            n_threads: program.runtime().width(),
            type_kv: case.kv.label(),
            n_prompt: case.n_prompt,
            n_gen: case.n_gen,
            n_depth: case.depth,
            avg_ts: mean,
            stddev_ts: if samples.len() > 1 { (spread / (n - 1.0)).sqrt() } else { 0.0 },
            median_ts,
            min_ts: speeds.iter().copied().fold(f64::INFINITY, f64::min),
            max_ts: speeds.iter().copied().fold(0.0, f64::max),
            samples_ns: samples.iter().map(|s| nanos(s.time)).collect(),
            samples_ts: speeds,
            bytes_per_token: bytes,
            read_bandwidth,
            bandwidth_share: bytes.map(|bytes| bytes as f64 * median_ts / read_bandwidth),
            integer_peak,
            peak_share: integer_peak
                .filter(|_| case.n_prompt > 0)
                .map(|peak| macs_per_token * median_ts / peak),
            kernels: hits.iter().map(|hits| (hits.kernel.to_string(), hits.total())).collect(),
            load_open_ns: nanos(stats.open),
            load_pack_ns: nanos(stats.pack),
            load_packed_bytes: stats.packed_bytes,
            load_plain_bytes: stats.plain_bytes,
        }
    }

    /// The test as llama-bench names it, as in `pp512 @ d1024`.
    fn test(&self) -> String {
        let name = match self.n_prompt {
            0 => format!("tg{}", self.n_gen),
            n => format!("pp{n}"),
        };
        if self.n_depth == 0 { name } else { format!("{name} @ d{}", self.n_depth) }
    }
}

/// Bytes that one generated token streams: every weight that it is multiplied by, and keys and values in the middle of the run.
fn bytes_per_token(model: &Model, case: &Case) -> usize {
    let program = model.program();
    program.graph().active_bytes() + program.graph().state().bytes(case.kv, case.depth + case.n_gen / 2)
}

/// The architecture and the format of most of the weights, as in `llama Q4_0`.
fn model_type(model: &Model) -> String {
    let weights = model.program().weights();
    let size = |format| weights.iter().filter(|w| w.format() == format).map(Matrix::elements).sum::<usize>();
    let most = cera_quant::Format::ALL.into_iter().max_by_key(|&format| size(format));
    let arch = model.file().meta().arch().unwrap_or("unknown");
    most.map_or_else(|| arch.to_owned(), |format| format!("{arch} {format}"))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The results in a format.
pub(super) fn write(format: Format, rows: &[Row]) -> Result<String> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(rows)? + "\n"),
        Format::Csv => csv(rows),
        Format::Md => markdown(rows),
    }
}

fn markdown(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "| model | size | tier | threads | kv | test | t/s | median | integer peak | bandwidth |"
    )?;
    writeln!(text, "|---|---:|---|---:|---|---:|---:|---:|---:|---:|")?;
    for row in rows {
        let size = row.model_size as f64 / f64::from(1 << 20);
        let share = |share: Option<f64>, of: Option<f64>, unit| match (share, of) {
            (Some(share), Some(of)) => format!("{:.0} % of {:.1} {unit}", 100.0 * share, of / 1e9),
            _ => "-".to_owned(),
        };
        let peak = share(row.peak_share, row.integer_peak, "GMAC/s");
        let bandwidth = share(row.bandwidth_share, Some(row.read_bandwidth), "GB/s");
        writeln!(
            text,
            "| {} | {size:.1} MiB | {} | {} | {} | {} | {:.2} ± {:.2} | {:.2} | {peak} | {bandwidth} |",
            row.model_type,
            row.tier,
            row.n_threads,
            row.type_kv,
            row.test(),
            row.avg_ts,
            row.stddev_ts,
            row.median_ts
        )?;
    }
    let mut kernels: Vec<&str> =
        rows.iter().flat_map(|row| &row.kernels).map(|(kernel, _)| kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    kernels.retain(|kernel| kernel.contains("gem"));
    writeln!(text, "\nmatrix kernels: {}", kernels.join(", "))?;
    Ok(text)
}

/// Every field but the lists, which are joined by semicolons.
fn csv(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        let serde_json::Value::Object(fields) = serde_json::to_value(row)? else { continue };
        if i == 0 {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            writeln!(text, "{}", names.join(","))?;
        }
        let cells: Vec<String> = fields.values().map(cell).collect();
        writeln!(text, "{}", cells.join(","))?;
    }
    Ok(text)
}

fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        serde_json::Value::Array(items) => {
            items.iter().map(|item| cell(item).replace(',', ":")).collect::<Vec<_>>().join(";")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn cells_are_quoted() {
        assert_eq!(cell(&serde_json::json!("a \"b\", c")), "\"a \"\"b\"\", c\"");
        assert_eq!(cell(&serde_json::json!([1, 2])), "1;2");
        assert_eq!(cell(&serde_json::json!(null)), "");
    }
}
