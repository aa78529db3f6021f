//! Programs built by hand: errors, biases, windows, taps, and the public kernels.
#![allow(clippy::unwrap_used)]

use std::mem::MaybeUninit;
use std::sync::Arc;

use cera_core::graph::{AttentionInfo, Columns, Graph, GraphBuilder, RopeInfo};
use cera_core::{
    CancelToken, Error, KernelTable, Matrix, Program, ProgramOptions, Runtime, SeqState, SeqStep, Want,
};
use cera_quant::acts::{ActFormat, ActsRef};
use cera_quant::kv::{KvShape, KvType};
use cera_quant::num::fma;
use cera_quant::ops::{Activation, Pointwise, RopePairs};
use cera_quant::pack::{self, PackedRef};
use cera_quant::{Format, QuantError};

const VOCABULARY: usize = 37;
const WIDTH: usize = 32;

/// Numbers that look random and are the same everywhere.
fn numbers(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn f32_matrix(seed: usize, m: usize, k: usize) -> Matrix {
    let bytes: Vec<u8> = numbers(seed, m * k).iter().flat_map(|x| x.to_le_bytes()).collect();
    let len = bytes.len();
    Matrix::plain(Format::F32, (m, k), Arc::new(bytes), 0..len).unwrap().packed().unwrap()
}

/// Embedding, one attention layer, output head.
fn graph(bias: Option<Vec<f32>>, window: Option<usize>, pairs: RopePairs) -> Graph {
    let mut g = GraphBuilder::new();
    let embedding = g.matrix("embedding", Format::F32, VOCABULARY, WIDTH);
    let head = g.matrix("head", Format::F32, VOCABULARY, WIDTH);
    let rope = RopeInfo::new(vec![0.3, 0.1, 0.03], pairs, 8);
    let rope = g.rope_frequencies(rope).unwrap();
    let x = g.embed("x", embedding);
    let q = g.rope("q", x, rope).unwrap();
    let state = g.kv_state(KvShape { heads: 4, k_dim: 8, v_dim: 8 }, window);
    let info = AttentionInfo { state, scale: 0.4, soft_cap: None, sinks: None };
    let context = g.attention("context", (q, q, x), info).unwrap();
    let y = g.add("sum", context, x).unwrap();
    let y = g.select_outputs("rows", y).unwrap();
    let bias = bias.map(|bias| g.vector(bias));
    let logits = g.linear("logits", y, head, bias).unwrap();
    g.finish(logits).unwrap()
}

fn program_of(graph: Graph) -> Program {
    let weights = vec![f32_matrix(1, VOCABULARY, WIDTH), f32_matrix(2, VOCABULARY, WIDTH)];
    Program::new(graph, weights, Runtime::from_env().unwrap(), ProgramOptions::default()).unwrap()
}

fn run(program: &Program, state: &mut SeqState, tokens: &[u32]) -> Vec<f32> {
    program.step(&mut [SeqStep { state, tokens, want: Want::All }]).unwrap().data().to_vec()
}

fn logits(program: &Program, tokens: &[u32]) -> Vec<f32> {
    run(program, &mut program.new_state(KvType::F32, 4096), tokens)
}

#[test]
fn a_bias_is_one_plain_addition() {
    let bias = numbers(9, VOCABULARY);
    let tokens: Vec<u32> = (0..21).map(|i| i * 5 % 37).collect();
    let without = logits(&program_of(graph(None, None, RopePairs::Half)), &tokens);
    let with = logits(&program_of(graph(Some(bias.clone()), None, RopePairs::Half)), &tokens);
    for (i, (with, without)) in with.iter().zip(&without).enumerate() {
        assert_eq!(with.to_bits(), (without + bias[i % VOCABULARY]).to_bits(), "{i}");
    }
}

#[test]
fn a_window_hides_what_came_before_it() {
    let (window, tokens) = (5, (0..300).map(|i| i * 11 % 37).collect::<Vec<u32>>());
    for pairs in [RopePairs::Half, RopePairs::Interleaved] {
        let windowed = logits(&program_of(graph(None, Some(window), pairs)), &tokens);
        let full = program_of(graph(None, None, pairs));
        assert_eq!(windowed[..window * VOCABULARY], logits(&full, &tokens)[..window * VOCABULARY]);
        // Rotary positions are relative: a window that began its own sequence computes the same but for rounding.
        let alone = logits(&full, &tokens[300 - window..]);
        let (last, alone) = (&windowed[299 * VOCABULARY..], &alone[(window - 1) * VOCABULARY..]);
        let far = last.iter().zip(alone).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-4, "{pairs:?}: {far}");
    }
}

/// A transformer layer whose widths are no whole number of strips, and what its matrices are.
fn layer(width: usize, heads: usize, head_dim: usize) -> (Graph, Vec<Matrix>) {
    let mut g = GraphBuilder::new();
    let mut weights = Vec::new();
    let mut matrix = |g: &mut GraphBuilder, name: &str, m: usize, k: usize| {
        weights.push(f32_matrix(weights.len(), m, k));
        g.matrix(name, Format::F32, m, k)
    };
    let embedding = matrix(&mut g, "embedding", VOCABULARY, width);
    let x = g.embed("x", embedding);
    let ones = g.vector(numbers(3, width));
    let h = g.rms_norm("norm", x, ones, 1e-5).unwrap();
    let inv_freq = (0..head_dim / 2).map(|i| 0.3 / (i + 1) as f32).collect();
    let rope = g.rope_frequencies(RopeInfo::new(inv_freq, RopePairs::Interleaved, head_dim)).unwrap();
    let bias = g.vector(numbers(4, heads * head_dim));
    let of_a_head = g.vector(numbers(5, head_dim));
    let mut qkv = Vec::new();
    for name in ["q", "k", "v"] {
        let weight = matrix(&mut g, name, heads * head_dim, width);
        let y = g.linear(name, h, weight, Some(bias)).unwrap();
        let y = if name == "q" { g.rms_norm("q_norm", y, of_a_head, 1e-5).unwrap() } else { y };
        qkv.push(if name == "v" { y } else { g.rope(&format!("{name}_rope"), y, rope).unwrap() });
    }
    let state = g.kv_state(KvShape { heads, k_dim: head_dim, v_dim: head_dim }, None);
    let info = AttentionInfo { state, scale: 0.1, soft_cap: None, sinks: None };
    let context = g.attention("context", (qkv[0], qkv[1], qkv[2]), info).unwrap();
    let weight = matrix(&mut g, "o", width, heads * head_dim);
    let y = g.linear("o", context, weight, None).unwrap();
    let y = g.scale("scaled", y, 0.7);
    let x = g.add("residual", x, y).unwrap();
    let h = g.rms_norm("norm_2", x, ones, 1e-5).unwrap();
    let (gate, up) = (matrix(&mut g, "gate", 85, width), matrix(&mut g, "up", 85, width));
    let (gate, up) = (g.linear("gate", h, gate, None).unwrap(), g.linear("up", h, up, None).unwrap());
    let act = g.gated("act", (gate, up), Activation::Silu).unwrap();
    let weight = matrix(&mut g, "down", width, 85);
    let y = g.linear("down", act, weight, None).unwrap();
    let x = g.add("residual_2", y, x).unwrap();
    let x = g.select_outputs("rows", x).unwrap();
    let logits = g.linear("head", x, embedding, None).unwrap();
    let logits = g.pointwise("logits", logits, Pointwise::SoftCap(2.0));
    (g.finish(logits).unwrap(), weights)
}

#[test]
fn fused_ops_have_the_bits_of_single_ones() {
    let tokens: Vec<u32> = (0..70).map(|i| i * 23 % 37).collect();
    let mut wrong = Vec::new();
    for (width, heads, head_dim) in [(40, 3, 8), (83, 2, 32), (64, 5, 48)] {
        for chunk in [1, 5, 64] {
            let (graph, weights) = layer(width, heads, head_dim);
            let run = |fuse: bool| {
                let (graph, weights, runtime) =
                    (graph.clone(), weights.clone(), Runtime::from_env().unwrap());
                let program = Program::new(graph, weights, runtime, ProgramOptions { chunk, fuse }).unwrap();
                logits(&program, &tokens).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            };
            if run(true) != run(false) {
                wrong.push((width, heads, head_dim, chunk));
            }
        }
    }
    assert!(wrong.is_empty(), "(width, heads, elements of a head, tokens of a pass): {wrong:?}");
}

#[test]
fn wrong_steps_are_refused_and_change_nothing() {
    let program = program_of(graph(None, None, RopePairs::Half));
    let mut state = program.new_state(KvType::F32, 4);
    let before = run(&program, &mut state, &[1, 2]);
    let step = |state: &mut SeqState, tokens: &[u32]| {
        program.step(&mut [SeqStep { state, tokens, want: Want::Last }]).map(|_| ())
    };
    assert_eq!(step(&mut state, &[3, 37]), Err(Error::Token { token: 37, vocabulary: 37 }));
    assert_eq!(step(&mut state, &[1, 2, 3]), Err(Error::ContextFull { held: 2, added: 3, limit: 4 }));
    let other = program_of(graph(None, None, RopePairs::Half));
    assert_eq!(other.new_state(KvType::F32, 4).spec(), state.spec(), "equal models share states");
    assert_eq!(state.len(), 2);
    let after = run(&program, &mut state, &[3, 4]);
    assert_eq!(logits(&program, &[1, 2, 3, 4]), [before, after].concat());
    assert_eq!(step(&mut state, &[]), Ok(()), "no tokens, nothing to do");
}

#[test]
fn a_cancelled_step_changes_nothing() {
    let program = program_of(graph(None, None, RopePairs::Half));
    let mut state = program.new_state(KvType::F32, 4);
    let before = run(&program, &mut state, &[1, 2]);
    let (token, want) = (CancelToken::new(), Want::All);
    token.clone().cancel();
    let result =
        program.step_cancellable(&mut [SeqStep { state: &mut state, tokens: &[5, 6], want }], &token);
    assert_eq!((result, state.len()), (Err(Error::Cancelled), 2));
    let step = &mut [SeqStep { state: &mut state, tokens: &[3, 4], want }];
    let after = program.step_cancellable(step, &CancelToken::new()).unwrap();
    assert_eq!(logits(&program, &[1, 2, 3, 4]), [&before, after.data()].concat());
}

#[test]
fn a_program_wants_the_weights_that_its_graph_declares() {
    let runtime = Runtime::from_env().unwrap();
    let weights = vec![f32_matrix(1, VOCABULARY, WIDTH), f32_matrix(2, VOCABULARY + 1, WIDTH)];
    let graph = graph(None, None, RopePairs::Half);
    let error = Program::new(graph.clone(), weights, runtime.clone(), ProgramOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "head: expected F32 [37, 32], found F32 [38, 32]");
    let error = Program::new(graph, vec![], runtime, ProgramOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "embedding: expected F32 [37, 32], found nothing");
}

#[test]
fn graphs_check_their_shapes() {
    let mut g = GraphBuilder::new();
    let table = g.matrix("table", Format::F32, 10, 32);
    let x = g.embed("x", table);
    let wide = g.matrix("wide", Format::F32, 10, 33);
    let short = g.vector(vec![1.0; 31]);
    g.scope("blk.3");
    let error = g.linear("ffn_up", x, wide, None).unwrap_err();
    assert_eq!(error.to_string(), "blk.3.ffn_up: elements per weight row is 33, expected 32");
    let error = g.rms_norm("norm", x, short, 1e-5).unwrap_err();
    assert_eq!(error.to_string(), "blk.3.norm: norm weights is 31, expected 32");
    let state = g.kv_state(KvShape { heads: 3, k_dim: 8, v_dim: 8 }, None);
    let info = AttentionInfo { state, scale: 1.0, soft_cap: None, sinks: None };
    assert!(g.attention("attention", (x, x, x), info).is_err());
    assert!(g.finish(x).is_err(), "logits need a row per output");
}

#[test]
fn taps_see_every_pass() {
    let weights = vec![f32_matrix(1, VOCABULARY, WIDTH), f32_matrix(2, VOCABULARY, WIDTH)];
    let options = ProgramOptions { chunk: 4, ..ProgramOptions::default() };
    let graph = graph(None, None, RopePairs::Half);
    let program = Program::new(graph, weights, Runtime::from_env().unwrap(), options).unwrap();
    let x = program.graph().find("x").unwrap();
    let mut state = program.new_state(KvType::F32, 100);
    let tokens: Vec<u32> = (0..10).collect();
    let mut seen = Vec::new();
    let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::Last }];
    program
        .step_with_taps(steps, &[x], &mut |value, rows| {
            assert_eq!(value, x);
            seen.extend_from_slice(rows);
        })
        .unwrap();
    assert_eq!(seen, numbers(1, VOCABULARY * WIDTH)[..10 * WIDTH]);
}

#[test]
fn a_step_inside_of_a_step_is_an_error() {
    let program = program_of(graph(None, None, RopePairs::Half));
    let x = program.graph().find("x").unwrap();
    let (mut state, mut other) = (program.new_state(KvType::F32, 9), program.new_state(KvType::F32, 9));
    let mut inner = Vec::new();
    let mut tap = |_, _: &[f32]| {
        let steps = &mut [SeqStep { state: &mut other, tokens: &[1], want: Want::Last }];
        inner.push(program.step(steps).map(drop));
    };
    let steps = &mut [SeqStep { state: &mut state, tokens: &[1, 2], want: Want::Last }];
    program.step_with_taps(steps, &[x], &mut tap).unwrap();
    assert_eq!(inner, [Err(Error::Nested)]);
}

#[test]
fn the_table_multiplies_and_refuses_what_does_not_fit() {
    let table = KernelTable::scalar();
    let (m, k, n) = (19, 64, 3);
    let rows: Vec<u8> = numbers(3, m * k).iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut packed = vec![0; pack::packed_bytes(Format::F32, m, k).unwrap()];
    let strip = pack::strip_bytes(Format::F32, k).unwrap();
    for (rows, out) in rows.chunks(16 * k * 4).zip(packed.chunks_exact_mut(strip)) {
        pack::pack_strip(Format::F32, k, rows, out).unwrap();
    }
    let w = PackedRef::new(Format::F32, m, k, &packed).unwrap();
    let x = numbers(4, n * k);
    let mut acts = vec![0; ActFormat::F32.bytes(n, k).unwrap()];
    table.quantize(ActFormat::F32, &x, k, &mut acts).unwrap();
    let acts = ActsRef::new(ActFormat::F32, (n, k), table.column_tile(n), &acts).unwrap();
    let mut out = vec![MaybeUninit::new(f32::NAN); n * m];
    let out = table.matmul(w, acts, &mut out).unwrap();
    let weights = numbers(3, m * k);
    for (token, out) in out.chunks(m).enumerate() {
        for (row, y) in out.iter().enumerate() {
            let exact: f64 =
                (0..k).map(|i| f64::from(x[token * k + i]) * f64::from(weights[row * k + i])).sum();
            assert!((f64::from(*y) - exact).abs() < 1e-5, "({token}, {row})");
        }
    }
    let mut short = vec![MaybeUninit::new(0.0); n * m - 1];
    let expected = QuantError::ShapeMismatch { what: "elements of the output", expected: 57, got: 56 };
    assert_eq!(table.matmul(w, acts, &mut short), Err(expected));
    assert!(table.quantize(ActFormat::Q8x32, &x, k, &mut [0; 7]).is_err());
}

#[test]
fn a_cache_of_blocks_wants_heads_of_whole_blocks() {
    let program = program_of(graph(None, None, RopePairs::Half));
    let mut state = program.new_state(KvType::Q8_0, 9);
    let result = program.step(&mut [SeqStep { state: &mut state, tokens: &[1], want: Want::All }]);
    let error = result.unwrap_err();
    assert_eq!(error, Error::KvBlocks { kv: KvType::Q8_0, k_dim: 8, v_dim: 8 });
    assert_eq!(error.to_string(), "a q8_0 cache needs heads of whole blocks, not of 8 and 8 elements");
    assert_eq!(state.len(), 0);
}

#[test]
fn columns_are_copied_side_by_side() {
    let graph = |columns: Columns| {
        let mut g = GraphBuilder::new();
        let embedding = g.matrix("embedding", Format::F32, VOCABULARY, WIDTH);
        let x = g.embed("x", embedding);
        let y = g.columns("y", x, columns)?;
        let y = g.select_outputs("rows", y)?;
        let head = g.matrix("head", Format::F32, columns.count * columns.len, columns.count * columns.len);
        let logits = g.linear("logits", y, head, None)?;
        g.finish(logits)
    };
    let table = numbers(1, VOCABULARY * WIDTH);
    for (first, len, stride, count) in
        [(0, 8, 16, 2), (8, 8, 16, 2), (3, 1, 7, 5), (31, 1, 0, 1), (0, 32, 32, 1)]
    {
        let m = count * len;
        let identity: Vec<u8> =
            (0..m * m).flat_map(|i| f32::from(u8::from(i / m == i % m)).to_le_bytes()).collect();
        let len_bytes = identity.len();
        let identity = Matrix::plain(Format::F32, (m, m), Arc::new(identity), 0..len_bytes).unwrap();
        let weights = vec![f32_matrix(1, VOCABULARY, WIDTH), identity.packed().unwrap()];
        let graph = graph(Columns { first, len, stride, count }).unwrap();
        let runtime = Runtime::from_env().unwrap();
        let program = Program::new(graph, weights, runtime, ProgramOptions::default()).unwrap();
        let tokens: Vec<u32> = (0..19).map(|i| i * 5 % 37).collect();
        let expected = tokens.iter().flat_map(|&token| {
            let row = &table[token as usize * WIDTH..][..WIDTH];
            (0..m).map(move |i| row[first + i / len * stride + i % len])
        });
        assert!(logits(&program, &tokens).into_iter().eq(expected), "{first}, {len}, {stride}, {count}");
    }
    for (first, len, stride, count) in
        [(1, 32, 0, 1), (0, 8, 13, 3), (8, 8, usize::MAX, 3), (usize::MAX, 1, 0, 1)]
    {
        let columns = Columns { first, len, stride, count };
        assert!(matches!(graph(columns), Err(Error::Operand { what: "columns", .. })), "{columns:?}");
    }
}

#[test]
fn rows_are_scaled_by_factors_of_their_own() {
    let mut g = GraphBuilder::new();
    let embedding = g.matrix("embedding", Format::F32, VOCABULARY, WIDTH);
    let head = g.matrix("head", Format::F32, 1, WIDTH);
    let x = g.embed("x", embedding);
    let factor = g.linear("factor", x, head, None).unwrap();
    let scaled = g.scale_rows("scaled", x, factor).unwrap();
    let twice = g.add_scaled("twice", (scaled, x), factor).unwrap();
    assert!(g.scale_rows("wrong", factor, x).is_err() && g.add_scaled("wrong", (factor, x), factor).is_err());
    let rows = g.select_outputs("rows", twice).unwrap();
    let graph = g.finish(rows).unwrap();
    let (embedding, head) = (f32_matrix(1, VOCABULARY, WIDTH), f32_matrix(2, 1, WIDTH));
    let program =
        Program::new(graph, vec![embedding, head], Runtime::from_env().unwrap(), ProgramOptions::default())
            .unwrap();
    let (table, weights) = (numbers(1, VOCABULARY * WIDTH), numbers(2, WIDTH));
    let tokens: Vec<u32> = (0..30).collect();
    for (row, got) in logits(&program, &tokens).chunks_exact(WIDTH).enumerate() {
        let x = &table[row * WIDTH..][..WIDTH];
        let factor = x.iter().zip(&weights).fold(0.0f32, |sum, (x, w)| fma(*w, *x, sum));
        for (x, got) in x.iter().zip(got) {
            assert_eq!(got.to_bits(), fma(factor, *x, factor * x).to_bits(), "token {row}");
        }
    }
}
