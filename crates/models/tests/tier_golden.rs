//! The promise of equal bits: the hashes of the logits of every fixture, however they are computed, are those of
//! `tests/golden.json`.
//!
//! With `CERA_BLESS=PATH` the test writes what it computed to that path instead of comparing.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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

/// Every arrangement: its name, how the model is loaded, how the logits are computed.
fn arrangements() -> Vec<(&'static str, ModelOptions, Arrangement)> {
    let plain = ModelOptions::default();
    let unfused = ProgramOptions { fuse: false, ..ProgramOptions::default() };
    vec![
        ("chunk 512", plain, whole),
        ("chunk 1", program(1), whole),
        ("chunk 7", program(7), whole),
        ("chunk 32", program(32), whole),
        ("forked", plain, forked),
        ("truncated", plain, truncated),
        ("restored", plain, restored),
        ("batched", plain, batched),
        ("batched, chunk 7", program(7), batched),
        ("unfused", ModelOptions { program: unfused, ..plain }, whole),
        ("not repacked", ModelOptions { repack: false, ..plain }, whole),
        ("read, not mapped", ModelOptions { load: LoadMode::Read, ..plain }, whole),
    ]
}

fn hash(model: &Model, tokens: &[u32], kv: KvType, arrangement: Arrangement) -> String {
    let logits = arrangement(model, tokens, kv);
    assert_eq!(logits.len(), tokens.len() * model.vocabulary());
    logits_hash(&logits).unwrap()
}

/// The entry of a model, and the arrangements that depart from it.
fn entry(
    path: &Path,
    len: usize,
    arrangements: &[(&str, ModelOptions, Arrangement)],
    runtime: &Arc<Runtime>,
) -> (Entry, Vec<String>) {
    let digest = Sha256::digest(std::fs::read(path).unwrap());
    let file = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut entry = Entry { file, tokens: len, kv_f32: String::new(), kv_f16: String::new() };
    let mut faults = Vec::new();
    for (name, options, arrangement) in arrangements {
        let model = Model::load(path, runtime.clone(), *options).unwrap();
        let tokens = sequence(len, model.vocabulary(), 0);
        for (kv, golden) in [(KvType::F32, &mut entry.kv_f32), (KvType::F16, &mut entry.kv_f16)] {
            let hash = hash(&model, &tokens, kv, *arrangement);
            if golden.is_empty() {
                *golden = hash;
            } else if *golden != hash {
                faults.push(format!("{}: {name}, KV {}", path.display(), kv.label()));
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

/// Under emulation every arrangement costs minutes: the whole sequence, and the arrangement that differs most from it.
fn affordable(
    all: Vec<(&'static str, ModelOptions, Arrangement)>,
) -> Vec<(&'static str, ModelOptions, Arrangement)> {
    let emulated = std::env::var_os("CERA_TEST_EMULATED").is_some();
    let keep = |name: &str| !emulated || name == "chunk 512" || name == "batched, chunk 7";
    all.into_iter().filter(|(name, ..)| keep(name)).collect()
}

/// A model to test: its name in the golden file, its path, the tokens, the arrangements.
type Case = (String, PathBuf, usize, Vec<(&'static str, ModelOptions, Arrangement)>);

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    if let Some(path) = std::env::var_os("CERA_TEST_SMOLLM2") {
        let some: [(&str, ModelOptions, Arrangement); 2] =
            [("chunk 512", ModelOptions::default(), whole), ("chunk 7", program(7), whole)];
        cases.push(("smollm2".to_owned(), path.into(), 32, affordable(some.into())));
    }
    cases.extend(fixture_files().into_iter().map(|file| {
        let path = fixtures::dir().join(&file);
        (file, path, 96, affordable(arrangements()))
    }));
    cases
}

#[test]
fn logits_have_the_golden_hashes() {
    let runtime = TestRuntime::new();
    let results = Mutex::new((Golden::new(), Vec::new()));
    let cases = Mutex::new(cases().into_iter());
    let work = || {
        loop {
            let Some((name, path, tokens, arrangements)) = cases.lock().unwrap().next() else { return };
            let (entry, departed) = entry(&path, tokens, &arrangements, &runtime.share());
            let (computed, faults) = &mut *results.lock().unwrap();
            computed.insert(name, entry);
            faults.extend(departed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (computed, faults) = results.into_inner().unwrap();
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
    for (name, entry) in &computed {
        assert_eq!(golden.get(name), Some(entry), "{name}");
    }
}
