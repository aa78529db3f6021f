//! The speed of cera beside llama.cpp's, on the same files.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::programs::{self, BenchRow};
use super::verdict::{Limit, Unit, Verdict, median};
use crate::model;

/// How many times as fast as the peer prefill must be, and decode.
const PREFILL_LIMIT: f64 = 1.2;
const DECODE_LIMIT: f64 = 0.95;

/// The types of the generated 1B models.
const TYPES_1B: [&str; 4] = ["Q4_0", "Q4_K_M", "Q8_0", "Q6_K"];
/// The name of the demo model, which is of type Q4_1.
const DEMO: (&str, &str) = ("SmolLM2 Q4_1", "Q4_1");

/// Speeds of one program on one model, one value per sample.
#[derive(Clone, Debug, Default)]
struct Speeds {
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

impl Speeds {
    /// Adds the samples of a bench of one prompt test and one generation test.
    fn add(&mut self, rows: &[BenchRow]) -> Result<()> {
        let test = |prompt: bool| {
            let row = rows.iter().find(|row| (row.n_prompt > 0) == prompt && (row.n_gen > 0) != prompt);
            row.with_context(|| {
                format!("the bench has no {} test", if prompt { "prompt" } else { "generation" })
            })
        };
        self.prefill.extend(&test(true)?.samples_ts);
        self.decode.extend(&test(false)?.samples_ts);
        Ok(())
    }
}

/// All that was measured on one model.
#[derive(Clone, Debug, Default)]
struct Series {
    model: String,
    tier: String,
    cera: Speeds,
    /// The peer with repacking and without.
    peer: [Speeds; 2],
    /// The machine in each round: products per second, and bytes per second.
    integer_peak: Vec<f64>,
    read_bandwidth: Vec<f64>,
    /// Shares of them that cera reached in each round.
    peak_share: Vec<f64>,
    bandwidth_share: Vec<f64>,
}

impl Series {
    /// Adds a round of cera.
    fn add_own(&mut self, rows: &[BenchRow]) -> Result<()> {
        self.cera.add(rows)?;
        for row in rows {
            self.tier.clone_from(row.tier.as_ref().context("the bench names no tier")?);
            self.integer_peak.extend(row.integer_peak);
            self.read_bandwidth.extend(row.read_bandwidth);
            self.peak_share.extend(row.peak_share);
            self.bandwidth_share.extend(row.bandwidth_share);
        }
        Ok(())
    }
}

/// One kind of test of a series, in medians.
struct Compared {
    kind: &'static str,
    own: f64,
    peer: [f64; 2],
    /// The share of the machine's limit that cera reached, and that limit with its unit.
    share: f64,
    machine: String,
    limit: f64,
}

impl Compared {
    fn of(series: &Series) -> [Compared; 2] {
        let mid = |values: &[f64]| median(values.iter().copied());
        let compared = |kind, of: fn(&Speeds) -> &Vec<f64>, share: &[f64], machine, limit| Compared {
            kind,
            own: mid(of(&series.cera)),
            peer: series.peer.each_ref().map(|speeds| mid(of(speeds))),
            share: mid(share),
            machine,
            limit,
        };
        let peak = format!("{:.0} GMAC/s", mid(&series.integer_peak) / 1e9);
        let bandwidth = format!("{:.1} GB/s", mid(&series.read_bandwidth) / 1e9);
        [
            compared("prefill", |speeds| &speeds.prefill, &series.peak_share, peak, PREFILL_LIMIT),
            compared("decode", |speeds| &speeds.decode, &series.bandwidth_share, bandwidth, DECODE_LIMIT),
        ]
    }

    /// The speed in units of the peer's better setting; not a number if either is missing.
    fn ratio(&self) -> f64 {
        let [on, off] = self.peer;
        if on.is_nan() || off.is_nan() { f64::NAN } else { self.own / on.max(off) }
    }

    fn judge(&self, model: &str) -> Verdict {
        let note = format!(
            "times the peer's better setting: {:.1} tokens/s, peer {:.1} repacked and {:.1} not; {} of {}",
            self.own,
            self.peer[0],
            self.peer[1],
            percent(self.share),
            self.machine
        );
        let name = format!("speed-{model}-{}", self.kind).replace(' ', "-");
        Verdict::judge(&name, (self.ratio(), Unit::Times), Limit::AtLeast(self.limit), &note)
    }
}

/// A share in percent, or a dash where nothing is known.
fn percent(share: f64) -> String {
    if share.is_nan() { "-".to_owned() } else { format!("{:.0} %", 100.0 * share) }
}

/// Speeds of all models, held against the peer's.
pub(super) fn check(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let Some(peer) = &setup.args.peer else {
        return Ok(vec![Verdict::skipped(
            "speed",
            "no program to compare with; give --peer PATH-TO-llama-bench",
        )]);
    };
    ensure!(peer.is_file(), "{} is no file", peer.display());
    let mut all = Vec::new();
    for (name, path) in models(setup)? {
        let mut series = Series { model: name, ..Series::default() };
        for round in 1..=setup.rounds() {
            println!("   {}, round {round} of {}", series.model, setup.rounds());
            run_round(setup, peer, &path, &mut series)?;
        }
        all.push(series);
    }
    let text = table(&all, setup);
    println!("\n{text}");
    if let Some(path) = &setup.args.table {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let judge = |series: &Series| Compared::of(series).map(|compared| compared.judge(&series.model));
    Ok(all.iter().flat_map(judge).collect())
}

/// The models that were asked for.
fn models(setup: &Setup<'_>) -> Result<Vec<(String, PathBuf)>> {
    let types = &setup.args.types;
    if let Some(unknown) = types.iter().find(|name| !TYPES_1B.contains(&name.as_str()) && *name != DEMO.1) {
        anyhow::bail!(
            "there is no speed test of type {unknown}; there are {}, {}",
            TYPES_1B.join(", "),
            DEMO.1
        );
    }
    let wanted = |name: &str| types.is_empty() || types.iter().any(|wanted| wanted == name);
    let mut models = Vec::new();
    for name in TYPES_1B.into_iter().filter(|name| wanted(name)) {
        models.push((format!("1B {name}"), setup.model_1b(name)?));
    }
    if wanted(DEMO.1) {
        models.push((DEMO.0.to_owned(), model::fetch(&model::SMOLLM2, &model::cache_dir()?)?));
    }
    Ok(models)
}

/// Runs cera and the peer's two settings once each.
fn run_round(setup: &Setup<'_>, peer: &Path, path: &Path, series: &mut Series) -> Result<()> {
    let threads = setup.args.threads.map_or_else(std::thread::available_parallelism, |n| {
        n.try_into().map_err(|_| std::io::Error::other("no threads are too few"))
    })?;
    let args = format!("-p {} -n {} -r 1 -t {threads}", setup.args.n_prompt, setup.args.n_gen);
    let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
    series.add_own(&setup.programs.bench(path, &args)?)?;
    for (speeds, repack) in series.peer.iter_mut().zip(["1", "0"]) {
        let args = [&args[..], &["--repack".to_owned(), repack.to_owned()]].concat();
        speeds.add(&programs::peer_bench(peer, path, &args)?)?;
    }
    Ok(())
}

/// The results as a Markdown table.
fn table(all: &[Series], setup: &Setup<'_>) -> String {
    let mut text = String::new();
    let (prompt, gen_, rounds) = (setup.args.n_prompt, setup.args.n_gen, setup.args.rounds);
    let tiers: Vec<&str> = all.iter().map(|series| series.tier.as_str()).collect();
    let tier = tiers.first().copied().unwrap_or("-");
    let _ = writeln!(
        text,
        "Tier `{tier}`; prompts of {prompt} tokens, {gen_} generated; medians of {rounds} alternating rounds; tokens/s.\n"
    );
    text += HEADINGS;
    for series in all {
        for compared in Compared::of(series) {
            text += &row(&series.model, &compared);
        }
    }
    text
}

/// The headings of the table; `docs/perf/x86.md` explains them.
const HEADINGS: &str = "\
| model | test | cera | llama.cpp, repack on | repack off | cera / better | of the machine's limit | limit |
|---|---|---:|---:|---:|---:|---:|---:|
";

fn row(model: &str, compared: &Compared) -> String {
    let Compared { kind, own, peer: [on, off], share, machine, .. } = compared;
    format!(
        "| {model} | {kind} | {own:.1} | {on:.1} | {off:.1} | {:.2} | {} | {machine} |\n",
        compared.ratio(),
        percent(*share)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(prefill: &[f64], decode: &[f64]) -> Vec<BenchRow> {
        let row = |n_prompt, n_gen, samples: &[f64]| BenchRow {
            n_prompt,
            n_gen,
            samples_ts: samples.to_vec(),
            tier: Some("avx2".to_owned()),
            integer_peak: Some(4e11),
            peak_share: (n_prompt > 0).then_some(0.5),
            read_bandwidth: Some(3e10),
            bandwidth_share: (n_gen > 0).then_some(0.9),
        };
        vec![row(512, 0, prefill), row(0, 64, decode)]
    }

    fn series() -> Series {
        let mut series = Series { model: "1B Q4_0".to_owned(), ..Series::default() };
        for (own, on, off) in [(250.0, 100.0, 190.0), (240.0, 120.0, 200.0), (900.0, 110.0, 10.0)] {
            series.add_own(&bench(&[own], &[own / 10.0])).expect("rows");
            series.peer[0].add(&bench(&[on], &[26.0])).expect("rows");
            series.peer[1].add(&bench(&[off], &[20.0])).expect("rows");
        }
        series
    }

    #[test]
    fn the_better_setting_is_the_measure_in_medians() {
        let [prefill, decode] = Compared::of(&series());
        assert_eq!((prefill.own, prefill.peer), (250.0, [110.0, 190.0]));
        assert!((prefill.ratio() - 250.0 / 190.0).abs() < 1e-12);
        assert!((decode.ratio() - 25.0 / 26.0).abs() < 1e-12);
        let lines = [&prefill, &decode].map(|compared| compared.judge("1B Q4_0").to_string());
        assert!(lines[0].starts_with("ok   speed-1B-Q4_0-prefill: 1.316 ("), "{}", lines[0]);
        assert!(
            lines[0].contains("50 % of 400 GMAC/s") && lines[1].contains("90 % of 30.0 GB/s"),
            "{lines:?}"
        );
        let slower = Compared { own: 0.94 * 26.0, ..decode };
        assert!(slower.judge("x").to_string().starts_with("FAIL speed-x-decode: 0.940 ("));
    }

    #[test]
    fn a_setting_without_samples_is_no_success() {
        let mut series = series();
        series.peer[1] = Speeds::default();
        let [prefill, decode] = Compared::of(&series);
        assert!(prefill.ratio().is_nan() && decode.ratio().is_nan());
        assert!(decode.judge("x").to_string().starts_with("FAIL"));
        assert!(Speeds::default().add(&bench(&[1.0], &[1.0])[..1]).is_err());
    }

    #[test]
    fn rows_have_as_many_cells_as_headings() {
        let cells = |line: &str| line.matches('|').count();
        let rows = Compared::of(&series()).map(|compared| row("1B Q4_0", &compared));
        let expected = HEADINGS.lines().next().map(cells);
        assert!(
            HEADINGS
                .lines()
                .chain(rows.iter().map(|row| row.trim()))
                .all(|line| Some(cells(line)) == expected)
        );
        assert_eq!(
            rows[0].trim(),
            "| 1B Q4_0 | prefill | 250.0 | 110.0 | 190.0 | 1.32 | 50 % | 400 GMAC/s |"
        );
        assert_eq!(percent(f64::NAN), "-");
    }
}
