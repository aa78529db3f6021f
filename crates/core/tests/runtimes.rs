//! Several runtimes in one process, and several threads on one.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cera_core::graph::{AttentionInfo, GraphBuilder};
use cera_core::{KernelTable, Matrix, Program, ProgramOptions, Runtime, SeqStep, Want};
use cera_quant::Format;
use cera_quant::kv::{KvShape, KvType};

const VOCABULARY: usize = 300;
const WIDTH: usize = 64;

fn matrix(m: usize) -> Matrix {
    let number = |i: usize| (i * 7919 % 2003) as f32 / 1001.5 - 1.0;
    let bytes: Vec<u8> = (0..m * WIDTH).flat_map(|i| number(i).to_le_bytes()).collect();
    let len = bytes.len();
    Matrix::plain(Format::F32, (m, WIDTH), Arc::new(bytes), 0..len).unwrap().packed().unwrap()
}

/// Embedding, one attention layer, output head.
fn program(runtime: &Arc<Runtime>) -> Program {
    program_with(runtime, None)
}

/// As [`program`], with a window.
fn program_with(runtime: &Arc<Runtime>, window: Option<usize>) -> Program {
    let mut g = GraphBuilder::new();
    let table = g.matrix("table", Format::F32, VOCABULARY, WIDTH);
    let x = g.embed("x", table);
    let state = g.kv_state(KvShape { heads: 4, k_dim: 16, v_dim: 16 }, window);
    let context = g
        .attention("context", (x, x, x), AttentionInfo { state, scale: 0.25, soft_cap: None, sinks: None })
        .unwrap();
    let y = g.add("sum", context, x).unwrap();
    let y = g.select_outputs("rows", y).unwrap();
    let logits = g.linear("logits", y, table, None).unwrap();
    let graph = g.finish(logits).unwrap();
    Program::new(graph, vec![matrix(VOCABULARY)], runtime.clone(), ProgramOptions::default()).unwrap()
}

fn runtime(width: usize) -> Arc<Runtime> {
    Runtime::with_width(KernelTable::scalar(), width).unwrap()
}

/// The bits of the logits of a prompt and of some tokens one by one.
fn generate(program: &Program, seed: usize) -> Vec<u32> {
    let token = |i: usize| ((seed * 31 + i * 17) % VOCABULARY) as u32;
    let mut state = program.new_state(KvType::F32, 64);
    let mut bits = Vec::new();
    let pieces = std::iter::once(0..20).chain((20..30).map(|i| i..i + 1));
    for tokens in pieces.map(|piece| piece.map(token).collect::<Vec<_>>()) {
        let logits = program.step(&mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::All }]);
        bits.extend(logits.unwrap().data().iter().map(|x| x.to_bits()));
    }
    bits
}

/// Calls of every kernel so far, by its name.
fn calls(program: &Program) -> Vec<(String, u64)> {
    program.runtime().hits().iter().map(|hits| (hits.kernel.to_string(), hits.total())).collect()
}

#[test]
fn more_threads_than_processors_have_the_same_bits() {
    let expected = generate(&program(&runtime(1)), 3);
    for width in [2, 16] {
        assert!(generate(&program(&runtime(width)), 3) == expected, "{width} threads");
    }
}

/// The bits of the last logits of a long prompt and of tokens after it, of two sequences at once.
fn continue_long(program: &Program) -> Vec<u32> {
    let token = |i: usize| (i * 17 % VOCABULARY) as u32;
    let mut states = [program.new_state(KvType::F32, 800), program.new_state(KvType::F16, 800)];
    let mut bits = Vec::new();
    for tokens in [0..590, 590..591, 591..592, 592..595] {
        let tokens: Vec<u32> = tokens.map(token).collect();
        let mut steps = Vec::new();
        for (i, state) in states.iter_mut().enumerate() {
            let tokens = &tokens[i * tokens.len() / 4..];
            steps.push(SeqStep { state, tokens, want: Want::Last });
        }
        bits.extend(program.step(&mut steps).unwrap().data().iter().map(|x| x.to_bits()));
    }
    bits
}

#[test]
fn keys_that_are_split_over_the_workers_have_the_same_bits() {
    for window in [None, Some(300), Some(1)] {
        let merges =
            |program: &Program| calls(program).iter().any(|(name, n)| name.contains("merge") && *n > 0);
        let alone = program_with(&runtime(1), window);
        let expected = continue_long(&alone);
        assert!(!merges(&alone), "one worker needs no parts");
        for width in [2, 3, 16] {
            let program = program_with(&runtime(width), window);
            assert!(continue_long(&program) == expected, "{width} threads, {window:?}");
            assert!(merges(&program) == (width > 2 && window != Some(1)), "{width} threads, {window:?}");
        }
    }
}

#[test]
fn two_runtimes_at_once_do_not_disturb_each_other() {
    let alone = program(&runtime(2));
    let expected: Vec<_> = (0..2).map(|seed| generate(&alone, seed)).collect();
    let calls = calls(&alone);
    std::thread::scope(|scope| {
        for (seed, expected) in expected.iter().enumerate() {
            let calls = &calls;
            scope.spawn(move || {
                let program = program(&runtime(2));
                for _ in 0..10 {
                    assert!(generate(&program, seed) == *expected, "sequence {seed}");
                }
                // What one runtime ran is not in the counters of the other: five times what two sequences took.
                let five: Vec<_> = calls.iter().map(|(kernel, calls)| (kernel.clone(), 5 * calls)).collect();
                assert_eq!(self::calls(&program), five, "sequence {seed}");
            });
        }
    });
}

#[test]
fn two_models_on_one_runtime_take_turns() {
    let shared = runtime(3);
    let expected: Vec<_> = (0..3).map(|seed| generate(&program(&runtime(1)), seed)).collect();
    std::thread::scope(|scope| {
        for (seed, expected) in expected.iter().enumerate() {
            let shared = &shared;
            scope.spawn(move || {
                let program = program(shared);
                assert!((0..5).all(|_| generate(&program, seed) == *expected), "sequence {seed}");
            });
        }
    });
}

#[test]
fn a_runtime_ends_while_another_one_works() {
    let (rounds, program) = (AtomicUsize::new(0), program(&runtime(2)));
    let expected = generate(&program, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while rounds.load(Ordering::Relaxed) < 20 {
                assert!(generate(&program, 1) == expected);
            }
        });
        for _ in 0..20 {
            let other = self::program(&runtime(3));
            generate(&other, 2);
            drop(other);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
}
