//! What models with windows, convolutions and recurrences remember of sequences: each by itself, no more than needed, and
//! unchanged by a step that fails.

#![allow(clippy::unwrap_used)]

mod common;

use cera_core::{Error, F32Op, KernelOp, LayerState, ProgramOptions, SeqState, SeqStep, Want};
use cera_models::{Model, ModelOptions};
use cera_quant::kv::{KvShape, KvType, PAGE_KEYS};
use cera_testkit::fixtures;
use common::TestRuntime;

/// Sequences of both, and of a model that keeps everything.
const MODELS: [&str; 6] = ["gemma3", "granitehybrid", "lfm2", "llama", "qwen35", "qwen3next"];

fn load(name: &str, chunk: usize) -> Model {
    let path = fixtures::dir().join(format!("arch/{name}/model.gguf"));
    let program = ProgramOptions { chunk, ..ProgramOptions::default() };
    let options = ModelOptions { program, ..ModelOptions::default() };
    Model::load(path, TestRuntime::with_threads(2).share(), options).unwrap()
}

fn text(len: usize, seed: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 31 + i * 7919 + seed * 104_729) % 384) as u32).collect()
}

fn state(model: &Model) -> SeqState {
    model.program().new_state(KvType::F16, 1000)
}

fn feed(model: &Model, state: &mut SeqState, tokens: &[u32]) -> Vec<f32> {
    model.step(&mut [SeqStep { state, tokens, want: Want::All }]).unwrap().into_data()
}

fn alone(model: &Model, tokens: &[u32]) -> Vec<f32> {
    feed(model, &mut state(model), tokens)
}

#[test]
fn sequences_that_take_turns_are_as_alone() {
    for name in MODELS {
        let model = load(name, 512);
        let texts = [text(40, 1), text(40, 2)];
        let mut states = [state(&model), state(&model)];
        let mut logits = [Vec::new(), Vec::new()];
        for position in 0..40 {
            for i in 0..2 {
                logits[i].extend(feed(&model, &mut states[i], &texts[i][position..=position]));
            }
        }
        for (text, logits) in texts.iter().zip(&logits) {
            assert!(*logits == alone(&model, text), "{name}");
        }
    }
}

#[test]
fn sequences_that_step_together_are_as_alone() {
    for name in MODELS {
        let model = load(name, 512);
        for count in 1..=3 {
            let texts: Vec<Vec<u32>> = (0..count).map(|i| text(30 + i, i)).collect();
            let mut states: Vec<SeqState> = (0..count).map(|_| state(&model)).collect();
            let mut logits = vec![Vec::<f32>::new(); count];
            // Prompts of different lengths together, then one token of each at a time.
            let mut step = |range: &dyn Fn(usize) -> std::ops::Range<usize>| {
                let mut steps: Vec<SeqStep<'_>> = states
                    .iter_mut()
                    .zip(&texts)
                    .enumerate()
                    .map(|(i, (state, text))| SeqStep { state, tokens: &text[range(i)], want: Want::All })
                    .collect();
                let all = model.step(&mut steps).unwrap();
                logits.iter_mut().enumerate().for_each(|(i, logits)| logits.extend(all.sequence(i)));
            };
            step(&|i| 0..1 + i);
            (0..29).for_each(|token| step(&|i| token + 1 + i..token + 2 + i));
            for (text, logits) in texts.iter().zip(&logits) {
                assert!(*logits == alone(&model, text), "{name}: {count} sequences");
            }
        }
    }
}

#[test]
fn windows_keep_only_what_later_tokens_see() {
    let model = load("gemma3", 512);
    let tokens = text(700, 3);
    let whole = alone(&model, &tokens);
    let mut state = state(&model);
    let mut logits = Vec::new();
    let page = KvType::F16.page_bytes(KvShape { heads: 2, k_dim: 32, v_dim: 32 });
    for tokens in tokens.chunks(35) {
        logits.extend(feed(&model, &mut state, tokens));
        // Six of seven layers have a window of 12 positions, which lie on one page or on two.
        let global = state.len().div_ceil(PAGE_KEYS);
        assert!(state.bytes() <= page * (global + 6 * 2), "{} bytes at {}", state.bytes(), state.len());
        assert_eq!(state.bytes(), state.spec().bytes(KvType::F16, state.len()));
    }
    assert!(logits == whole, "dropping pages changed the logits");
}

#[test]
fn layers_without_kv_heads_have_no_cache() {
    let model = load("lfm2", 512);
    let page = KvType::F16.page_bytes(KvShape { heads: 2, k_dim: 16, v_dim: 16 });
    // Two layers with attention; in two layers the products of two tokens, of 64 channels each.
    let convolutions = 2 * 2 * 64 * 4;
    for (positions, pages) in [(0, 0), (1, 1), (64, 1), (65, 2), (6400, 100)] {
        let expected = 2 * page * pages + if positions == 0 { 0 } else { convolutions };
        assert_eq!(state(&model).spec().bytes(KvType::F16, positions), expected, "{positions}");
    }
    let mut state = state(&model);
    feed(&model, &mut state, &text(65, 4));
    assert_eq!(state.bytes(), 4 * page + convolutions);
}

#[test]
fn a_step_that_fails_in_its_middle_changes_nothing() {
    for name in MODELS {
        let model = load(name, 16);
        let (first, second) = (text(90, 5), text(33, 6));
        let mut state = state(&model);
        feed(&model, &mut state, &first);
        let (len, bytes) = (state.len(), state.bytes());
        let value = model.program().graph().find("hidden.1").unwrap();
        let mut passes = 0;
        let mut tap = |_, _: &[f32]| {
            passes += 1;
            assert!(passes < 4, "stop here");
        };
        let steps = &mut [SeqStep { state: &mut state, tokens: &text(200, 7), want: Want::Last }];
        let error = model.program().step_with_taps(steps, &[value], &mut tap).unwrap_err();
        assert!(matches!(error, Error::Panic(_)), "{name}: {error}");
        assert_eq!((passes, state.len(), state.bytes()), (4, len, bytes), "{name}");
        let logits = feed(&model, &mut state, &second);
        let whole = alone(&model, &[first, second].concat());
        assert!(logits == whole[90 * model.vocabulary()..], "{name}");
    }
}

/// All elements that a sequence remembers.
fn elements(state: &SeqState) -> Vec<u8> {
    let mut elements = Vec::new();
    state.write_to(&mut elements).unwrap();
    elements
}

#[test]
fn the_same_tokens_in_other_steps_and_passes_leave_the_same_state() {
    for name in ["qwen35", "qwen3next", "granitehybrid", "lfm2"] {
        let (model, tokens) = (load(name, 512), text(256, 8));
        let mut whole = state(&model);
        let logits = feed(&model, &mut whole, &tokens);
        let expected = elements(&whole);
        assert_eq!(expected.len(), whole.bytes());
        for size in [1, 64, 99] {
            let mut cut = state(&model);
            let parts: Vec<f32> = tokens.chunks(size).flat_map(|part| feed(&model, &mut cut, part)).collect();
            assert!(parts == logits && elements(&cut) == expected, "{name} in steps of {size}");
        }
        for chunk in [1, 7, 33, 64] {
            let model = load(name, chunk);
            let mut cut = state(&model);
            assert!(feed(&model, &mut cut, &tokens) == logits, "{name} in passes of {chunk}");
            assert!(elements(&cut) == expected, "{name} in passes of {chunk}");
        }
    }
}

#[test]
fn a_token_costs_layers_of_linear_attention_the_same_at_any_position() {
    for name in ["qwen35", "qwen3next", "granitehybrid"] {
        let runtime = TestRuntime::with_threads(2);
        let path = fixtures::dir().join(format!("arch/{name}/model.gguf"));
        let model = Model::load(path, runtime.share(), ModelOptions::default()).unwrap();
        let mut state = state(&model);
        let recurrent = |state: &SeqState| -> usize {
            let layers = state.spec().layers.iter();
            layers
                .filter(|l| matches!(l, LayerState::Recurrent { .. }))
                .map(|l| l.bytes(KvType::F16, state.len()))
                .sum()
        };
        let mut costs = Vec::new();
        for (before, seed) in [(3, 9), (290, 10), (600, 11)] {
            let tokens = text(before, seed);
            feed(&model, &mut state, &tokens);
            runtime.share().reset_hits();
            feed(&model, &mut state, &[7]);
            let hits = runtime.share().hits().into_iter();
            let calls: Vec<(String, u64)> = hits
                .filter(|hits| {
                    matches!(
                        hits.kernel.op,
                        KernelOp::F32(F32Op::DeltaRule | F32Op::StateSpace | F32Op::Conv)
                    )
                })
                .map(|hits| (hits.kernel.to_string(), hits.total()))
                .collect();
            assert_eq!(calls.len(), 2, "{name}: {calls:?}");
            // A call of either has as many elements as the state of what it works on.
            costs.push((calls, recurrent(&state)));
        }
        assert!(costs.iter().all(|cost| *cost == costs[0]), "{name}: {costs:?}");
    }
}
