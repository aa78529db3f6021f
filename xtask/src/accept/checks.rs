//! The checks of cera alone.

use anyhow::{Context, Result, anyhow};

use super::Setup;
use super::programs::{BenchRow, IdleCell, LinearCell, LoadCell, TokenizeCell};
use super::verdict::{Limit, Unit, Verdict, median};
use crate::{model, proc};

/// Threads on two processors, and how much longer than two they may take.
const MANY_THREADS: usize = 16;
const THREADS_LIMIT: f64 = 3.0;
/// Tokens that they decode.
const THREADS_TOKENS: usize = 64;

/// The share of a processor that an idle session may use.
const IDLE_LIMIT: f64 = 0.01;

/// Resident memory in sizes of the file.
const MEMORY_LIMIT: f64 = 1.15;

/// The time to encode a text over that for half of it.
const TOKENIZE_LIMIT: f64 = 2.5;

/// The time to pack with two threads over that with one.
const LOAD_LIMIT: f64 = 0.8;

/// The depths at which layers of linear attention are compared, and how much longer they may take at the second.
const LINEAR_DEPTHS: &str = "100,16000";
const LINEAR_LIMIT: f64 = 1.05;
/// The share of the recurrence in a prompt.
const RECURRENCE_LIMIT: f64 = 0.15;

/// Many threads, and two engines at once, on two processors.
pub(super) fn threads(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("llama-1b", "Q4_0")?;
    let decode = |threads: usize| {
        let args = format!("-p 0 -n {THREADS_TOKENS} -r 1 -t {threads}");
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        samples(&setup.programs.bench_on_two(&model, &args)?)
    };
    let (mut few, mut many, mut paired) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setup.rounds() {
        few.extend(decode(2)?);
        many.extend(decode(MANY_THREADS)?);
        let pair =
            std::thread::scope(|scope| [0, 1].map(|_| scope.spawn(|| decode(2))).map(|run| run.join()));
        for run in pair {
            paired.extend(run.map_err(|_| anyhow!("a bench could not be watched"))??);
        }
    }
    let [few, many, paired] = [few, many, paired].map(median);
    let judge = |name, speed: f64, what: &str| {
        let note = format!("times as long {what} on 2 processors: {speed:.1} and {few:.1} tokens/s");
        Verdict::judge(name, (few / speed, Unit::Times), Limit::AtMost(THREADS_LIMIT), &note)
    };
    Ok(vec![
        judge("threads", many, &format!("with {MANY_THREADS} threads as with 2")),
        judge("engines", paired, "with 2 engines of 2 threads at once as with one"),
    ])
}

/// The speeds of the only test of a bench.
fn samples(rows: &[BenchRow]) -> Result<Vec<f64>> {
    Ok(rows.first().context("the bench printed no row")?.samples_ts.clone())
}

/// A session without work.
pub(super) fn idle(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("llama-1b", "Q4_0")?;
    let mut shares = Vec::new();
    let mut threads = 0;
    for _ in 0..setup.rounds() {
        let cell: IdleCell = setup.programs.cell("idle", Some(&model), &[])?;
        shares.push(cell.cpu_seconds / cell.wall_seconds);
        threads = cell.threads;
    }
    let note = format!("of a processor, {threads} threads, the worst of {} runs", shares.len());
    let worst = shares.into_iter().fold(0.0, f64::max);
    Ok(vec![Verdict::judge("idle", (worst, Unit::Percent), Limit::Below(IDLE_LIMIT), &note)])
}

/// Layers of linear attention at two depths, and their recurrence in a prompt.
pub(super) fn linear(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("qwen3-next-80b-a3b", "Q4_0")?;
    let threads = setup.threads()?.to_string();
    let args = ["--depths", LINEAR_DEPTHS, "--threads", &threads];
    Ok(judge_linear(&setup.programs.cell("linear", Some(&model), &args)?))
}

fn judge_linear(cell: &LinearCell) -> Vec<Verdict> {
    let at = |times: &[f64], depth: usize| times.get(depth).copied().unwrap_or(f64::NAN);
    let [near, far] = [0, 1].map(|depth| at(&cell.layers_ns, depth));
    let note = format!(
        "times as long after 16,000 tokens as after 100: {:.3} and {:.3} ms, of which the recurrence {:.3} and {:.3} ms",
        1e-6 * far,
        1e-6 * near,
        1e-6 * at(&cell.recurrence_ns, 1),
        1e-6 * at(&cell.recurrence_ns, 0),
    );
    let share = (cell.prompt_share, Unit::Percent);
    vec![
        Verdict::judge("linear-decode", (far / near, Unit::Times), Limit::AtMost(LINEAR_LIMIT), &note),
        Verdict::judge(
            "linear-prefill",
            share,
            Limit::AtMost(RECURRENCE_LIMIT),
            "of prefill is the recurrence",
        ),
    ]
}

/// Memory after loading and after some work, for every way to load.
pub(super) fn memory(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("llama-1b", "Q4_0")?;
    let mut verdicts = Vec::new();
    for (name, args) in [
        ("map", &["--mode", "map"][..]),
        ("read", &["--mode", "read"]),
        ("map-no-repack", &["--mode", "map", "--no-repack"]),
        ("read-no-repack", &["--mode", "read", "--no-repack"]),
    ] {
        let cell: LoadCell = setup.programs.cell("load", Some(&model), args)?;
        verdicts.extend(judge_memory(name, &cell));
    }
    Ok(verdicts)
}

/// Memory less keys, values and activations, against the file's size.
fn judge_memory(name: &str, cell: &LoadCell) -> [Verdict; 3] {
    let limit = MEMORY_LIMIT * cell.file_bytes;
    let used = cell.state_bytes + cell.workspace_bytes;
    let peak = cell.loaded_peak_bytes.max(cell.settled_peak_bytes - used);
    let judge = |what: &str, bytes: f64, limit: f64| {
        let note = format!("{:.3} times the file", bytes / cell.file_bytes);
        let name = format!("memory-{name}-{what}");
        Verdict::judge(&name, (bytes, Unit::Megabytes), Limit::AtMost(limit), &note)
    };
    [
        judge("loaded", cell.loaded_bytes, limit),
        judge("settled", cell.settled_bytes - used, limit),
        judge("peak", peak, limit + cell.largest_tensor),
    ]
}

/// Encoding of long texts, with a byte-level and a SentencePiece vocabulary.
pub(super) fn tokenize(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let demo = model::fetch(&model::SMOLLM2, &model::cache_dir()?)?;
    let pieces = proc::root().join("tests/fixtures/arch/gemma3/model.gguf");
    [("tokenize-bytes", demo), ("tokenize-pieces", pieces)]
        .into_iter()
        .map(|(name, file)| {
            let TokenizeCell { ratio, unit, length } = setup.programs.cell("tokenize", Some(&file), &[])?;
            let note = format!("times as long for twice {length} characters, the worst of several: {unit:?}");
            Ok(Verdict::judge(name, (ratio, Unit::Times), Limit::AtMost(TOKENIZE_LIMIT), &note))
        })
        .collect()
}

/// The phases of loading, and packing on two threads.
pub(super) fn load(setup: &Setup<'_>) -> Result<Vec<Verdict>> {
    let model = setup.model("llama-1b", "Q4_0")?;
    let cell = |threads: &str| setup.programs.cell::<LoadCell>("load", Some(&model), &["--threads", threads]);
    // The first brings the file into the system's cache.
    cell("2")?;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..setup.rounds() {
        one.push(cell("1")?);
        two.push(cell("2")?);
    }
    Ok(vec![judge_load(&one, &two)])
}

fn judge_load(one: &[LoadCell], two: &[LoadCell]) -> Verdict {
    let seconds = |cells: &[LoadCell], nanos: fn(&LoadCell) -> f64| 1e-9 * median(cells.iter().map(nanos));
    let pack = |cells| seconds(cells, |cell| cell.pack_ns);
    let first = seconds(two, |cell| cell.step_ns.get(1).copied().unwrap_or(f64::NAN));
    let later = seconds(two, |cell| median(cell.step_ns.iter().skip(2).copied()));
    let note = format!(
        "times as long with 2 threads as with 1: open {:.0} ms, pack {:.0} and {:.0} ms; the first token takes {:.1} ms, \
         a later one {:.1} ms",
        1e3 * seconds(two, |cell| cell.open_ns),
        1e3 * pack(two),
        1e3 * pack(one),
        1e3 * first,
        1e3 * later
    );
    Verdict::judge("load", (pack(two) / pack(one), Unit::Times), Limit::AtMost(LOAD_LIMIT), &note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> LoadCell {
        LoadCell {
            file_bytes: 1000e6,
            largest_tensor: 100e6,
            open_ns: 1e6,
            pack_ns: 500e6,
            loaded_bytes: 1150e6,
            loaded_peak_bytes: 1250e6,
            settled_bytes: 1180e6,
            settled_peak_bytes: 1280e6,
            state_bytes: 10e6,
            workspace_bytes: 20e6,
            step_ns: vec![900e6, 30e6, 20e6, 20e6],
        }
    }

    fn states(cell: &LoadCell) -> Vec<bool> {
        judge_memory("x", cell).iter().map(|verdict| verdict.to_string().starts_with("ok")).collect()
    }

    #[test]
    fn memory_is_judged_less_state_and_activations() {
        assert_eq!(states(&cell()), [true, true, true]);
        assert_eq!(states(&LoadCell { loaded_bytes: 1151e6, ..cell() }), [false, true, true]);
        assert_eq!(states(&LoadCell { settled_bytes: 1181e6, ..cell() }), [true, false, true]);
        assert_eq!(states(&LoadCell { settled_peak_bytes: 1281e6, ..cell() }), [true, true, false]);
        assert_eq!(states(&LoadCell { loaded_peak_bytes: 1251e6, ..cell() }), [true, true, false]);
        let line = judge_memory("map", &cell())[1].to_string();
        assert_eq!(
            line,
            "ok   memory-map-settled: 1150.0 MB (1.150 times the file), limit at most 1150.0 MB"
        );
    }

    #[test]
    fn linear_attention_is_judged_by_the_ratio_of_depths() {
        let cell = |far, prompt_share| LinearCell {
            layers_ns: vec![2e6, far],
            recurrence_ns: vec![1e5, 1e5],
            prompt_share,
        };
        let states = |cell: &LinearCell| {
            judge_linear(cell)
                .iter()
                .map(|verdict| verdict.to_string()[..4].trim().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(states(&cell(2.09e6, 0.15)), ["ok", "ok"]);
        assert_eq!(states(&cell(2.11e6, 0.16)), ["FAIL", "FAIL"]);
        assert_eq!(states(&LinearCell { layers_ns: vec![2e6], ..cell(2e6, 0.1) })[0], "FAIL");
    }

    #[test]
    fn loading_is_judged_by_the_medians_of_packing() {
        let slow = |pack_ns| LoadCell { pack_ns, ..cell() };
        let one = [slow(500e6), slow(510e6), slow(9000e6)];
        let line = judge_load(&one, &[slow(300e6), slow(306e6), slow(400e6)]).to_string();
        assert!(line.starts_with("ok   load: 0.600 ("), "{line}");
        assert!(
            line.contains("pack 306 and 510 ms") && line.contains("takes 30.0 ms, a later one 20.0"),
            "{line}"
        );
        assert!(judge_load(&one, &one).to_string().starts_with("FAIL load: 1.000"));
    }
}
