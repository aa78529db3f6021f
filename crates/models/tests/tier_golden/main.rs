//! The promise of equal bits: the hashes of the logits of every model, however they are computed, are those of
//! `tests/golden.json`, and the kernels of the tier computed them.
//!
//! With `CERA_BLESS=PATH` the test writes what it computed to that path instead of comparing.
#![allow(clippy::unwrap_used)]

mod cells;
#[path = "../common/mod.rs"]
mod common;
mod kernels;
#[path = "../support/requantize.rs"]
mod requantize;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cells::{Cell, KV_TYPES, sequence};
use cera_core::{LayerState, Runtime};
use cera_models::{Model, logits_hash};
use cera_quant::Format;
use cera_quant::kv::KvType;
use cera_testkit::{emulation, fixtures};
use common::TestRuntime;
use requantize::sha256;

/// What the golden file holds for one model and sequence.
#[derive(Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Entry {
    /// SHA-256 of the file.
    file: String,
    /// Tokens of the sequence; see [`sequence`].
    tokens: usize,
    /// The hash of all logits with an f32 cache.
    kv_f32: String,
    /// The hash of all logits with an f16 cache.
    kv_f16: String,
    /// The hash of all logits with a q8_0 cache, of fixtures whose heads are whole blocks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kv_q8_0: String,
}

impl Entry {
    fn hash(&mut self, kv: KvType) -> &mut String {
        match kv {
            KvType::F32 => &mut self.kv_f32,
            KvType::F16 => &mut self.kv_f16,
            KvType::Q8_0 => &mut self.kv_q8_0,
        }
    }
}

type Golden = BTreeMap<String, Entry>;

fn golden() -> Golden {
    let path = fixtures::dir().join("../golden.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A model and a sequence to test.
struct Case {
    /// The name in the golden file.
    name: String,
    path: PathBuf,
    tokens: usize,
    cells: Vec<Cell>,
}

/// Every fixture that this version supports, by its path below the fixtures.
fn fixture_files() -> Vec<String> {
    let mut files = fixtures::ARCHITECTURES.map(|name| format!("arch/{name}/model.gguf")).to_vec();
    let quant = std::fs::read_dir(fixtures::dir().join("quant")).unwrap();
    let names = quant.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.extend(names.filter(|name| name.ends_with(".gguf")).map(|name| format!("quant/{name}")));
    files.sort();
    assert_eq!(files.len(), fixtures::ARCHITECTURES.len() + 15);
    files
}

/// Tokens that fill more than one pass of 512 tokens and more than two chunks of 256 keys.
const LONG: usize = 600;

/// The fixtures with `tokens` tokens.
fn fixture_cases(tokens: usize, cells: &[Cell]) -> impl Iterator<Item = Case> {
    fixture_files().into_iter().map(move |file| Case {
        path: fixtures::dir().join(&file),
        name: if tokens == LONG { format!("{file}, {LONG} tokens") } else { file },
        tokens,
        cells: cells.to_vec(),
    })
}

/// The demo model with `tokens` tokens.
fn demo_case((name, tokens): (&str, usize), path: PathBuf, cells: Vec<Cell>) -> Case {
    Case { name: name.to_owned(), path, tokens, cells: cells.into_iter().map(Cell::without_q8_0).collect() }
}

/// The demo model with its whole sequence, and with a short one.
const DEMO: (&str, usize) = ("smollm2", 32);
const DEMO_SHORT: (&str, usize) = ("smollm2, 8 tokens", 8);

fn demo_model() -> Option<PathBuf> {
    std::env::var_os("CERA_TEST_SMOLLM2").map(PathBuf::from)
}

/// The cases where time is short.
fn brief_cases() -> Vec<Case> {
    let demo = demo_model().map(|path| demo_case(DEMO_SHORT, path, cells::few()));
    fixture_cases(96, &cells::few()).chain(demo).collect()
}

/// The cases under emulation where it is not.
fn emulated_cases() -> Vec<Case> {
    let demo = |case| demo_model().map(|path| demo_case(case, path, cells::few()));
    let demos = [DEMO, DEMO_SHORT].into_iter().filter_map(demo);
    fixture_cases(96, &cells::all()).chain(fixture_cases(LONG, &cells::one())).chain(demos).collect()
}

/// All cases. The scalar tier computes long sequences in one way.
fn cases(tier: &str, golden: &Golden) -> Vec<Case> {
    let long = if tier == "scalar" { cells::one() } else { cells::long() };
    let mut cases: Vec<Case> = fixture_cases(96, &cells::all()).chain(fixture_cases(LONG, &long)).collect();
    if let Some(source) = demo_model() {
        for (name, format) in [("smollm2 in Q4_0", Format::Q4_0), ("smollm2 in Q8_0", Format::Q8_0)] {
            let known = golden.get(name).map(|entry| entry.file.as_str());
            cases.push(demo_case((name, DEMO.1), requantize::provide(&source, format, known), cells::four()));
        }
        cases.push(demo_case(DEMO_SHORT, source.clone(), cells::few()));
        cases.push(demo_case(DEMO, source, cells::some()));
    }
    cases
}

/// One runtime per number of threads.
struct Runtimes([TestRuntime; 3]);

impl Runtimes {
    fn of(&self, threads: usize) -> Arc<Runtime> {
        self.0[threads - 1].share()
    }
}

/// Whether a model can have a cache of this type.
fn fits(model: &Model, kv: KvType) -> bool {
    let fits = |layer: &LayerState| !matches!(layer, LayerState::Kv { shape, .. } if !kv.fits(*shape));
    model.new_state(kv).spec().layers.iter().all(fits)
}

fn hash(model: &Model, tokens: &[u32], cell: &Cell, kv: KvType) -> String {
    let logits = (cell.arrangement)(model, tokens, kv);
    assert_eq!(logits.len(), tokens.len() * model.vocabulary());
    logits_hash(&logits).unwrap()
}

/// The entry of a case, and the cells that depart from it or ran on other kernels.
fn entry(case: &Case, runtimes: &Runtimes) -> (Entry, Vec<String>) {
    let file = sha256(&std::fs::read(&case.path).unwrap());
    let mut entry = Entry { file, tokens: case.tokens, ..Entry::default() };
    let mut faults = Vec::new();
    for cell in &case.cells {
        let runtime = runtimes.of(cell.threads);
        let model = Model::load(&case.path, runtime.clone(), cell.options).unwrap();
        let tokens = sequence(case.tokens, model.vocabulary(), 0);
        for &kv in cell.kv.iter().filter(|&&kv| fits(&model, kv)) {
            let place = || format!("{}: {}, KV {}", case.name, cell.name, kv.label());
            let before = kernels::calls(&runtime);
            let hash = hash(&model, &tokens, cell, kv);
            let fault = kernels::fault(&model, &runtime, &before, (cell.passes, kv));
            faults.extend(fault.map(|fault| format!("{}: {fault}", place())));
            let first = entry.hash(kv);
            if first.is_empty() {
                *first = hash;
            } else if *first != hash {
                faults.push(format!("{}: other bits than those of the first cell", place()));
            }
        }
    }
    let complete =
        |&kv: &KvType| !entry.hash(kv).is_empty() || kv == KvType::Q8_0 && !case.name.starts_with("quant/");
    assert!(KV_TYPES.iter().all(complete), "{} lacks a KV type", case.name);
    (entry, faults)
}

#[test]
fn logits_have_the_golden_hashes() {
    let golden = golden();
    let runtimes = Runtimes([1, 2, 3].map(TestRuntime::with_threads));
    let tier = runtimes.of(1).table().tier().label();
    let emulated = emulation::is_on();
    let cases = match (emulated, emulation::is_brief()) {
        (_, true) => brief_cases(),
        (true, false) => emulated_cases(),
        (false, false) => cases(tier, &golden),
    };
    let (mut computed, mut faults) = (Golden::new(), Vec::new());
    for case in cases {
        let (entry, departed) = entry(&case, &runtimes);
        computed.insert(case.name, entry);
        faults.extend(departed);
    }
    assert!(faults.is_empty(), "{} cells are wrong:\n{}", faults.len(), faults.join("\n"));
    if let Some(path) = std::env::var_os("CERA_BLESS") {
        let text = serde_json::to_string_pretty(&computed).unwrap() + "\n";
        return std::fs::write(path, text).unwrap();
    }
    for (name, entry) in &computed {
        let golden = golden.get(name);
        assert!(golden == Some(entry), "{name}: {golden:?} is golden, {entry:?} computed");
    }
    // The demo model is a download: without it this test says less, and `xtask ci` always has it.
    let demo = demo_model().is_some();
    let due = |name: &str| !emulated && (demo || !name.starts_with("smollm2"));
    let absent: Vec<&String> =
        golden.keys().filter(|name| due(name) && !computed.contains_key(*name)).collect();
    assert!(absent.is_empty(), "golden, but not computed: {absent:?}");
}
