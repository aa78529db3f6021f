//! Programs with kernels that no table of a tier has: they see which elements are written, and fail on demand.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::scalar::gemm;

use super::*;
use crate::graph::GraphBuilder;
use crate::table::KernelTable;

const VOCABULARY: usize = 5;
const K: usize = 32;

fn matrix(m: usize, repack: bool) -> Matrix {
    let bytes: Vec<u8> = (0..m * K).flat_map(|i| ((i % 97) as f32 - 48.0).to_le_bytes()).collect();
    let len = bytes.len();
    let plain = Matrix::plain(Format::F32, (m, K), Arc::new(bytes), 0..len).unwrap();
    if repack { plain.packed().unwrap() } else { plain }
}

/// An embedding and an output head of `m` rows.
fn head(m: usize, repack: bool, runtime: &Arc<Runtime>) -> Program {
    let mut g = GraphBuilder::new();
    let embedding = g.matrix("embedding", Format::F32, VOCABULARY, K);
    let head = g.matrix("head", Format::F32, m, K);
    let x = g.embed("x", embedding);
    let x = g.select_outputs("rows", x).unwrap();
    let logits = g.linear("logits", x, head, None).unwrap();
    let graph = g.finish(logits).unwrap();
    let weights = vec![matrix(VOCABULARY, false), matrix(m, repack)];
    Program::new(graph, weights, runtime.clone(), ProgramOptions::default()).unwrap()
}

fn step(program: &Program, state: &mut SeqState, tokens: &[u32]) -> Result<Vec<f32>, Error> {
    program.step(&mut [SeqStep { state, tokens, want: Want::All }]).map(|logits| logits.data().to_vec())
}

/// Writes per address, by [`note`].
static WRITES: Mutex<BTreeMap<usize, u32>> = Mutex::new(BTreeMap::new());

/// In place of a matrix kernel: notes every element that it is asked to write.
///
/// # Safety
/// None is needed.
unsafe fn note(args: &GemmArgs<'_>) {
    gemm::f32(args);
    let mut writes = WRITES.lock().unwrap();
    let tokens = args.tiles.start * args.x.tile()..args.x.n().min(args.tiles.end * args.x.tile());
    for token in tokens {
        for row in args.strips.start * 16..args.w.m().min(args.strips.end * 16) {
            *writes.entry(args.out.at(token, row).addr()).or_default() += 1;
        }
    }
}

#[test]
fn every_row_is_written_once_for_any_number_of_rows_and_threads() {
    let most = if std::env::var_os("CERA_TEST_EMULATED").is_some() { 5 } else { 32 };
    let mut wrong = Vec::new();
    for threads in 1..=most {
        let runtime = Runtime::with_width(KernelTable::with_matrix_kernel(note), threads).unwrap();
        let small = if threads <= 4 { 1..=48 } else { 37..=40 };
        for m in small.chain([8, 16, 24, 64, 65, 127, 250, 1000]) {
            for (repack, n) in [(true, 1), (true, 3), (false, 1), (false, 3)] {
                let program = head(m, repack, &runtime);
                let logits = step(&program, &mut program.new_state(KvType::F32, 9), &[4, 1, 3][..n]).unwrap();
                let writes = std::mem::take(&mut *WRITES.lock().unwrap());
                let (first, last) = (*writes.keys().next().unwrap(), *writes.keys().last().unwrap());
                let once = writes.values().all(|&count| count == 1);
                if !once || writes.len() != n * m || last - first != (n * m - 1) * size_of::<f32>() {
                    wrong.push((m, threads, repack, n));
                }
                assert_eq!(logits.len(), n * m);
            }
        }
    }
    assert!(wrong.is_empty(), "(rows, threads, repack, tokens): {wrong:?}");
}

/// How often each strip of weights was read, by address, by [`count`].
static READS: Mutex<BTreeMap<usize, u32>> = Mutex::new(BTreeMap::new());

/// In place of a matrix kernel: counts the strips that it is asked to read.
///
/// # Safety
/// None is needed.
unsafe fn count(args: &GemmArgs<'_>) {
    gemm::f32(args);
    let mut reads = READS.lock().unwrap();
    for strip in args.strips.clone() {
        *reads.entry(args.w.strip(strip).as_ptr().addr()).or_default() += 1;
    }
}

#[test]
fn strips_of_chosen_experts_are_read_once_for_all_their_tokens() {
    const EXPERTS: usize = 8;
    const M: usize = 50;
    let runtime = Runtime::with_width(KernelTable::with_matrix_kernel(count), 3).unwrap();
    // Nothing, and what makes all tokens choose the same two experts.
    for (bias, chosen) in [(0.0, None), (1e3, Some(2))] {
        let mut g = GraphBuilder::new();
        let table = g.matrix("table", Format::F32, VOCABULARY, K);
        let x = g.embed("x", table);
        let router = g.matrix("router", Format::F32, EXPERTS, K);
        let logits = g.linear("logits", x, router, None).unwrap();
        let bias: Vec<f32> =
            (0..EXPERTS).map(|expert| if [1, 6].contains(&expert) { bias } else { 0.0 }).collect();
        let bias = g.vector(bias);
        let scores = cera_quant::ops::Scores::Softmax;
        let routing =
            cera_quant::ops::Routing { scores, chosen: 2, groups: None, renormalise: None, scale: 1.0 };
        let route = g.route("route", logits, (routing, Some(bias))).unwrap();
        let stack = g.matrix_stack("stack", Format::F32, EXPERTS, (M, K));
        let y = g.expert_linear("y", x, (stack, None), route).unwrap();
        let y = g.combine("sum", y, route).unwrap();
        let rows = g.select_outputs("rows", y).unwrap();
        let graph = g.finish(rows).unwrap();
        let stacked = matrix(EXPERTS * M, false).stacked(EXPERTS).unwrap().packed().unwrap();
        let weights = vec![matrix(VOCABULARY, false), matrix(EXPERTS, true), stacked.clone()];
        let program = Program::new(graph, weights, runtime.clone(), ProgramOptions::default()).unwrap();
        READS.lock().unwrap().clear();
        let tokens: Vec<u32> = (0..64).map(|i| i % VOCABULARY as u32).collect();
        step(&program, &mut program.new_state(KvType::F32, 64), &tokens).unwrap();
        let reads = std::mem::take(&mut *READS.lock().unwrap());
        let of_expert = |expert: usize| {
            let packed = program.weights()[2].packed_ref(expert).unwrap();
            (0..packed.strips())
                .map(|s| reads.get(&packed.strip(s).as_ptr().addr()).copied())
                .collect::<Vec<_>>()
        };
        let read: Vec<usize> = (0..EXPERTS).filter(|&expert| of_expert(expert)[0].is_some()).collect();
        for expert in 0..EXPERTS {
            let expected = read.contains(&expert).then_some(1);
            assert_eq!(of_expert(expert), [expected; 4], "expert {expert} of {read:?}");
        }
        assert!(chosen.is_none_or(|chosen| read.len() == chosen), "{read:?}");
    }
}

/// Whether [`fail`] does.
static FAILS: AtomicBool = AtomicBool::new(false);

/// A matrix kernel that panics on demand.
///
/// # Safety
/// None is needed.
unsafe fn fail(args: &GemmArgs<'_>) {
    if FAILS.load(Ordering::Relaxed) && args.strips.contains(&5) {
        std::panic::resume_unwind(Box::new("a kernel failed"));
    }
    gemm::f32(args);
}

#[test]
fn a_kernel_that_panics_is_an_error_of_the_step_and_changes_nothing() {
    for threads in [1, 2, 5] {
        let runtime = Runtime::with_width(KernelTable::with_matrix_kernel(fail), threads).unwrap();
        let program = head(200, true, &runtime);
        let mut state = program.new_state(KvType::F32, 9);
        let expected = step(&program, &mut program.new_state(KvType::F32, 9), &[2, 3]).unwrap();
        for _ in 0..20 {
            FAILS.store(true, Ordering::Relaxed);
            let failed = step(&program, &mut state, &[2, 3]);
            FAILS.store(false, Ordering::Relaxed);
            assert_eq!((failed, state.len()), (Err(Error::Panic("a kernel failed".to_owned())), 0));
        }
        assert_eq!(step(&program, &mut state, &[2, 3]), Ok(expected));
        assert_eq!(state.len(), 2);
    }
}

#[test]
fn what_is_not_finite_is_found_where_it_stands() {
    let finite = [0.0, -0.0, f32::MAX, f32::MIN, 1e-45, -1e-45].map(|x| [x; 500]).concat();
    assert_eq!(first_non_finite(&finite), None);
    assert_eq!(first_non_finite(&[]), None);
    for x in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 1, 1023, 1024, 2047, 2999] {
            let mut all = finite.clone();
            (all[at], all[2999]) = (x, x);
            assert_eq!(first_non_finite(&all), Some(at));
        }
    }
}
