//! The promise of equal bits: the hashes of the logits of every fixture, however they are computed, are those of
//! `tests/golden.json`.
//!
//! With `CERA_BLESS=PATH` the test writes what it computed to that path instead of comparing.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cera_core::{ProgramOptions, Runtime, SeqState, SeqStep, Want};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelOptions, logits_hash};
use cera_quant::kv::KvType;
use cera_testkit::fixtures;
use common::TestRuntime;
use sha2::{Digest, Sha256};

/// What the golden file holds for one model.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Entry {
    /// SHA-256 of the file.
    file: String,
    /// Tokens of the sequence; see [`sequence`].
    tokens: usize,
    /// The hash of all logits with an f32 cache.
    kv_f32: String,
    /// The hash of all logits with an f16 cache.
    kv_f16: String,
}

type Golden = BTreeMap<String, Entry>;

fn golden_path() -> PathBuf {
    fixtures::dir().join("../golden.json")
}

/// A fixed sequence of token ids that wanders over the vocabulary.
fn sequence(len: usize, vocabulary: usize, seed: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 31 + i * 7919 + seed * 104_729) % vocabulary) as u32).collect()
}

/// One way to compute the logits of a sequence.
type Arrangement = fn(&Model, &[u32], KvType) -> Vec<f32>;

fn state(model: &Model, kv: KvType) -> SeqState {
    model.program().new_state(kv, 1024)
}

fn feed(model: &Model, state: &mut SeqState, tokens: &[u32]) -> Vec<f32> {
    model.step(&mut [SeqStep { state, tokens, want: Want::All }]).unwrap().data().to_vec()
}

fn whole(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    feed(model, &mut state(model, kv), tokens)
}

/// Half, then the other half on a fork while the original takes something else.
fn forked(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let (first, second) = tokens.split_at(tokens.len() / 2);
    let mut original = state(model, kv);
    let mut logits = feed(model, &mut original, first);
    let mut fork = original.fork();
    feed(model, &mut original, &sequence(9, model.vocabulary(), 5));
    logits.extend(feed(model, &mut fork, second));
    logits
}

/// Half, something else that is taken back, then the other half.
fn truncated(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let (first, second) = tokens.split_at(tokens.len() / 2);
    let mut state = state(model, kv);
    let mut logits = feed(model, &mut state, first);
    feed(model, &mut state, &sequence(40, model.vocabulary(), 6));
    assert_eq!(state.truncate(first.len()), first.len());
    logits.extend(feed(model, &mut state, second));
    logits
}

/// Half, a snapshot, something else, back to the snapshot, then the other half.
fn restored(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let (first, second) = tokens.split_at(tokens.len() / 2);
    let mut state = state(model, kv);
    let mut logits = feed(model, &mut state, first);
    let snapshot = state.snapshot();
    feed(model, &mut state, &sequence(30, model.vocabulary(), 7));
    state.restore(&snapshot).unwrap();
    logits.extend(feed(model, &mut state, second));
    logits
}

/// In pieces of growing size, each in one step with tokens of two other sequences, one of the other KV type.
fn batched(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let other_kv = if kv == KvType::F32 { KvType::F16 } else { KvType::F32 };
    let (mut a, mut b, mut c) = (state(model, kv), state(model, kv), state(model, other_kv));
    let (mut logits, mut from, mut size) = (Vec::new(), 0, 1);
    while from < tokens.len() {
        let to = tokens.len().min(from + size);
        let (tb, tc) = (sequence(3, model.vocabulary(), from), sequence(size % 4, model.vocabulary(), size));
        let steps = &mut [
            SeqStep { state: &mut b, tokens: &tb, want: Want::Last },
            SeqStep { state: &mut a, tokens: &tokens[from..to], want: Want::All },
            SeqStep { state: &mut c, tokens: &tc, want: Want::None },
        ];
        logits.extend_from_slice(model.step(steps).unwrap().sequence(1));
        (from, size) = (to, size + 2);
    }
    logits
}

fn program(chunk: usize) -> ModelOptions {
    ModelOptions { program: ProgramOptions { chunk, ..ProgramOptions::default() }, ..ModelOptions::default() }
}

/// A way to get the logits of a sequence: none may depart from the first.
#[derive(Clone)]
struct Cell {
    name: String,
    threads: usize,
    options: ModelOptions,
    arrangement: Arrangement,
    /// Only with an f16 cache, to save time.
    f16_only: bool,
}

impl Cell {
    fn new(name: &str, threads: usize, options: ModelOptions, arrangement: Arrangement) -> Cell {
        Cell { name: name.to_owned(), threads, options, arrangement, f16_only: false }
    }

    /// The whole sequence at once, in passes of `chunk` tokens.
    fn whole(threads: usize, chunk: usize) -> Cell {
        let name = format!("{threads} threads, chunk {chunk}");
        Cell { name, threads, options: program(chunk), arrangement: whole, f16_only: true }
    }
}

/// Every way: threads by chunks, then the arrangements.
fn all_cells() -> Vec<Cell> {
    let plain = ModelOptions::default();
    let unfused = ProgramOptions { fuse: false, ..ProgramOptions::default() };
    let mut cells = vec![Cell::new("1 thread, chunk 512", 1, plain, whole)];
    for threads in [1, 2, 3] {
        cells.extend([1, 7, 32, 512].map(|chunk| Cell::whole(threads, chunk)));
    }
    cells.extend([
        Cell::new("forked", 2, plain, forked),
        Cell::new("truncated", 1, plain, truncated),
        Cell::new("restored", 2, plain, restored),
        Cell::new("batched", 3, plain, batched),
        Cell::new("batched, chunk 7", 2, program(7), batched),
        Cell::new("unfused", 2, ModelOptions { program: unfused, ..plain }, whole),
        Cell::new("not repacked", 2, ModelOptions { repack: false, ..plain }, whole),
        Cell::new("read, not mapped", 1, ModelOptions { load: LoadMode::Read, ..plain }, whole),
    ]);
    cells
}

/// Under emulation every cell costs minutes: the whole sequence, and the cell that differs most from it.
fn few_cells() -> Vec<Cell> {
    vec![
        Cell::new("1 thread, chunk 512", 1, ModelOptions::default(), whole),
        Cell { f16_only: true, ..Cell::new("batched, chunk 7", 2, program(7), batched) },
    ]
}

/// Fewer cells for a model of a real size.
fn some_cells() -> Vec<Cell> {
    let plain = ModelOptions::default();
    let first = Cell::new("1 thread, chunk 512", 1, plain, whole);
    let arranged: [(&str, usize, Arrangement); 4] = [
        ("forked", 1, forked),
        ("truncated", 2, truncated),
        ("restored", 3, restored),
        ("batched", 2, batched),
    ];
    let arranged = arranged.map(|(name, threads, arrangement)| Cell {
        f16_only: true,
        ..Cell::new(name, threads, plain, arrangement)
    });
    let whole = [Cell::whole(2, 1), Cell::whole(2, 7), Cell::whole(3, 32), Cell::whole(2, 512)];
    std::iter::once(first).chain(whole).chain(arranged).collect()
}

fn hash(model: &Model, tokens: &[u32], kv: KvType, arrangement: Arrangement) -> String {
    let logits = arrangement(model, tokens, kv);
    assert_eq!(logits.len(), tokens.len() * model.vocabulary());
    logits_hash(&logits).unwrap()
}

/// The entry of a model, and the cells that depart from it.
fn entry(case: &Case, runtimes: &Runtimes) -> (Entry, Vec<String>) {
    let digest = Sha256::digest(std::fs::read(&case.path).unwrap());
    let file = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut entry = Entry { file, tokens: case.tokens, kv_f32: String::new(), kv_f16: String::new() };
    let mut faults = Vec::new();
    for cell in &case.cells {
        let model = Model::load(&case.path, runtimes.of(cell.threads), cell.options).unwrap();
        let tokens = sequence(case.tokens, model.vocabulary(), 0);
        for (kv, golden) in [(KvType::F32, &mut entry.kv_f32), (KvType::F16, &mut entry.kv_f16)] {
            if cell.f16_only && kv == KvType::F32 {
                continue;
            }
            let hash = hash(&model, &tokens, kv, cell.arrangement);
            if golden.is_empty() {
                *golden = hash;
            } else if *golden != hash {
                faults.push(format!("{}: {}, KV {}", case.name, cell.name, kv.label()));
            }
        }
    }
    (entry, faults)
}

/// Every fixture that this version supports, by its path below the fixtures.
fn fixture_files() -> Vec<String> {
    let mut files = vec!["arch/llama/model.gguf".to_owned(), "arch/mistral/model.gguf".to_owned()];
    let quant = std::fs::read_dir(fixtures::dir().join("quant")).unwrap();
    let names = quant.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.extend(names.filter(|name| name.ends_with(".gguf")).map(|name| format!("quant/{name}")));
    files.sort();
    assert_eq!(files.len(), 17);
    files
}

/// A model to test.
struct Case {
    /// Its name in the golden file.
    name: String,
    path: PathBuf,
    tokens: usize,
    cells: Vec<Cell>,
}

fn cases() -> Vec<Case> {
    let emulated = std::env::var_os("CERA_TEST_EMULATED").is_some();
    let cells = if emulated { few_cells() } else { all_cells() };
    let fixture = |file: String| Case {
        path: fixtures::dir().join(&file),
        name: file,
        tokens: 96,
        cells: cells.clone(),
    };
    let mut cases: Vec<Case> = fixture_files().into_iter().map(fixture).collect();
    if let Some(path) = std::env::var_os("CERA_TEST_SMOLLM2") {
        let cells = if emulated { few_cells() } else { some_cells() };
        cases.push(Case { name: "smollm2".to_owned(), path: path.into(), tokens: 32, cells });
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

#[test]
fn logits_have_the_golden_hashes() {
    let runtimes = Runtimes([1, 2, 3].map(TestRuntime::with_threads));
    let (mut computed, mut faults) = (Golden::new(), Vec::new());
    for case in cases() {
        let (entry, departed) = entry(&case, &runtimes);
        computed.insert(case.name, entry);
        faults.extend(departed);
    }
    assert!(
        faults.is_empty(),
        "these do not have the bits of the whole sequence at once:\n{}",
        faults.join("\n")
    );
    if let Some(path) = std::env::var_os("CERA_BLESS") {
        let text = serde_json::to_string_pretty(&computed).unwrap() + "\n";
        return std::fs::write(path, text).unwrap();
    }
    let golden: Golden = serde_json::from_str(&std::fs::read_to_string(golden_path()).unwrap()).unwrap();
    for (name, entry) in &golden {
        // The demo model is a download: without it this test says less, and `xtask ci` always has it.
        let absent = name == "smollm2" && std::env::var_os("CERA_TEST_SMOLLM2").is_none();
        assert!(
            absent || computed.get(name) == Some(entry),
            "{name}: {entry:?} is golden, {:?} computed",
            computed.get(name)
        );
    }
    assert!(computed.keys().all(|name| golden.contains_key(name)), "a model has no golden entry");
}
