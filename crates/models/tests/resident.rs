//! Mixtures of experts in less memory than their weights: the bits of those that have all of it, and a bound that holds.

#![allow(clippy::unwrap_used)]

mod common;

use cera_core::{CancelToken, ResidentStats, SeqStep, Want};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelError, ModelOptions};
use cera_quant::kv::KvType;
use cera_testkit::fixtures;
use common::TestRuntime;

const FILES: [&str; 4] = [
    "arch/qwen3moe/model.gguf",
    "arch/deepseek2/model.gguf",
    "quant-arch/qwen3next-Q8_0.gguf",
    "quant-arch/gptoss-MXFP4_MOE.gguf",
];

fn load(runtime: &TestRuntime, file: &str, options: ModelOptions) -> Result<Model, ModelError> {
    Model::load(fixtures::dir().join(file), runtime.share(), options)
}

/// The bits of the logits of a prompt of 40 tokens and of 12 that follow one by one.
fn logits(model: &Model) -> Vec<u32> {
    let token = |i: usize| ((i * 37 + 5) % model.vocabulary()) as u32;
    let prompt: Vec<u32> = (0..40).map(token).collect();
    let mut state = model.new_state(KvType::F32);
    let mut bits = Vec::new();
    for tokens in std::iter::once(prompt).chain((40..52).map(|i| vec![token(i)])) {
        let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::All }];
        bits.extend(model.step(steps).unwrap().data().iter().map(|x| x.to_bits()));
    }
    bits
}

/// Bytes of the packed weights, and of those among them that are not experts.
fn sizes(runtime: &TestRuntime, file: &str) -> (usize, usize) {
    let all = load(runtime, file, ModelOptions::default()).unwrap().load_stats().packed_bytes;
    let error = load(runtime, file, ModelOptions { memory: Some(0), ..ModelOptions::default() }).unwrap_err();
    let ModelError::Memory { needed, budget: 0, .. } = error else { panic!("{error}") };
    (all, needed)
}

#[test]
fn experts_that_come_and_go_give_the_same_bits_within_the_budget() {
    let runtime = TestRuntime::with_threads(2);
    for file in FILES {
        let (all, every) = sizes(&runtime, file);
        let whole =
            load(&runtime, file, ModelOptions { memory: Some(all), ..ModelOptions::default() }).unwrap();
        assert_eq!(whole.program().resident_stats(), None, "{file}: there is room for all");
        let expected = logits(&whole);
        let experts = all - every;
        for room in [0, experts / 20, experts / 5, experts / 2, experts - 1] {
            let options = ModelOptions { memory: Some(every + room), ..ModelOptions::default() };
            let model = load(&runtime, file, options).unwrap();
            assert!(logits(&model) == expected, "{file}: other bits in {room} of {experts} bytes");
            let stats = model.program().resident_stats().unwrap();
            let ResidentStats { budget, peak, hits, misses, bypassed, read, .. } = stats;
            assert_eq!(budget, room, "{file}");
            assert!(peak <= room && model.load_stats().packed_bytes <= every, "{file}: {stats:?}");
            assert!(read > 0 && misses + bypassed > 0, "{file}: {stats:?}");
            assert_eq!((hits, misses) == (0, 0), room == 0, "{file}: {stats:?}");
            assert!(room < experts / 2 || hits > 0, "{file}: {stats:?}");
            assert!(room < experts - 1 || hits > misses, "{file}: {stats:?}");
        }
    }
}

#[test]
fn a_step_that_fails_leaves_no_expert_half_packed() {
    let runtime = TestRuntime::with_threads(2);
    let (all, every) = sizes(&runtime, FILES[0]);
    let options = ModelOptions { memory: Some(every + (all - every) / 3), ..ModelOptions::default() };
    let model = load(&runtime, FILES[0], options).unwrap();
    let expected = logits(&model);
    // Whenever it is cancelled: before anything is done, while experts are packed, or not at all.
    for wait in 0..40 {
        let cancel = CancelToken::new();
        let other = cancel.clone();
        let cancelling = std::thread::spawn(move || {
            (0..wait * 500).for_each(|_| std::hint::spin_loop());
            other.cancel();
        });
        let mut state = model.new_state(KvType::F32);
        let steps = &mut [SeqStep { state: &mut state, tokens: &[1, 2, 3], want: Want::Last }];
        let done = model.program().step_cancellable(steps, &cancel);
        cancelling.join().unwrap();
        assert!(done.is_ok() || state.is_empty());
        assert!(logits(&model) == expected, "cancelled after {wait}");
    }
}

#[test]
fn impossible_budgets_are_errors_that_say_so() {
    let runtime = TestRuntime::with_threads(1);
    let (_, every) = sizes(&runtime, FILES[0]);
    let with = |memory, load_mode| {
        let options = ModelOptions { memory: Some(memory), load: load_mode, ..ModelOptions::default() };
        load(&runtime, FILES[0], options).map(drop).map_err(|error| error.to_string())
    };
    let error = with(every - 1, LoadMode::Map).unwrap_err();
    assert!(error.contains(&every.to_string()) && error.contains(&(every - 1).to_string()), "{error}");
    let error = with(every, LoadMode::Read).unwrap_err();
    assert!(error.contains("read rather than mapped"), "{error}");
    let dense = ModelOptions { memory: Some(1), ..ModelOptions::default() };
    assert!(matches!(load(&runtime, "arch/llama/model.gguf", dense), Err(ModelError::Memory { .. })));
}
