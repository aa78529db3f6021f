//! Joining chunks, in increasing order.

use super::scratch::{Buffers, RowStates};
use crate::num::{LANES, Simd, math};

/// Maxima and sums of the weights of sixteen rows. A sum of 0 stands for no key: with one it is at least 1, since the
/// weight of the maximum is 1, or NaN.
#[derive(Debug, Clone, Copy)]
pub(super) struct States {
    pub(super) max: [f32; LANES],
    pub(super) sum: [f32; LANES],
}

impl States {
    /// No key.
    pub(super) const NONE: States = States { max: [f32::NEG_INFINITY; LANES], sum: [0.0; LANES] };
}

/// What becomes of the values of a row when a chunk joins.
#[derive(Clone, Copy)]
enum Scale {
    /// They stay: the chunk has no key.
    Keep,
    /// They are those of the chunk, the first with a key.
    First,
    /// Both are scaled and added: the values so far and those of the chunk.
    Both(f32, f32),
}

/// Joins the states of a chunk to those before it: `M' = max(M, m)`, both sides scaled by `exp` of the difference.
#[inline(always)]
fn join<S: Simd>(s: S, states: &mut RowStates) -> [Scale; LANES] {
    let (before, chunk) = (&mut states.joined, &states.chunk);
    let (before_max, chunk_max) = (s.load(&before.max), s.load(&chunk.max));
    let max = s.max(before_max, chunk_max);
    let (old, new) = (math::exp(s, s.sub(before_max, max)), math::exp(s, s.sub(chunk_max, max)));
    let sum = s.fma(s.load(&chunk.sum), new, s.mul(s.load(&before.sum), old));
    let (max, sum) = (s.to_array(max), s.to_array(sum));
    let (old, new) = (s.to_array(old), s.to_array(new));
    let mut scales = [Scale::Keep; LANES];
    for i in 0..LANES {
        if chunk.sum[i] == 0.0 {
            continue;
        }
        (before.max[i], before.sum[i], scales[i]) = if before.sum[i] == 0.0 {
            (chunk.max[i], chunk.sum[i], Scale::First)
        } else {
            (max[i], sum[i], Scale::Both(old[i], new[i]))
        };
    }
    scales
}

/// Joins the values of a chunk to those before it.
#[inline(always)]
fn join_values<S: Simd>(s: S, scale: Scale, values: &[[f32; LANES]], out: &mut [f32]) {
    for (values, out) in values.iter().zip(out.chunks_mut(LANES)) {
        match scale {
            Scale::Keep => {}
            Scale::First => s.store_part(s.load(values), out),
            Scale::Both(old, new) => {
                let scaled = s.mul(s.load_part(out), s.splat(old));
                s.store_part(s.fma(s.load(values), s.splat(new), scaled), out);
            }
        }
    }
}

/// Divides the values of row `i` of sixteen by the sum of their weights, which its sink joins before; zeros without a key.
#[inline(always)]
fn divide<S: Simd>(s: S, states: &States, i: usize, sink: Option<f32>, out: &mut [f32]) {
    let (max, mut sum) = (states.max[i], states.sum[i]);
    if sum == 0.0 {
        return out.fill(0.0);
    }
    if let Some(sink) = sink {
        let all = s.max(s.splat(max), s.splat(sink));
        let old = math::exp(s, s.sub(s.splat(max), all));
        let new = math::exp(s, s.sub(s.splat(sink), all));
        for out in out.chunks_mut(LANES) {
            s.store_part(s.mul(s.load_part(out), old), out);
        }
        sum = s.to_array(s.fma(s.splat(sum), old, new))[0];
    }
    let inv = s.splat(1.0 / sum);
    for out in out.chunks_mut(LANES) {
        s.store_part(s.mul(s.load_part(out), inv), out);
    }
}

/// The sink of a row, if there are any: those of the queries of a token, whose rows lie one after the other.
#[inline(always)]
fn sink(sinks: Option<&[f32]>, row: usize) -> Option<f32> {
    sinks.map(|sinks| sinks[row % sinks.len()])
}

/// Joins the chunk in the buffers to the results so far.
#[inline(always)]
pub(super) fn add_chunk<S: Simd>(s: S, buffers: &mut Buffers<'_>, v_dim: usize, out: &mut [f32]) {
    let stride = v_dim.div_ceil(LANES);
    let rows = out.chunks_mut(LANES * v_dim).zip(buffers.sums.chunks(LANES * stride));
    for (states, (out, values)) in buffers.states.iter_mut().zip(rows) {
        let scales = join(s, states);
        let rows = out.chunks_exact_mut(v_dim).zip(values.chunks_exact(stride));
        for ((out, values), scale) in rows.zip(scales) {
            join_values(s, scale, values, out);
        }
    }
}

/// Turns the results so far into the results.
#[inline(always)]
pub(super) fn finish<S: Simd>(
    s: S,
    buffers: &Buffers<'_>,
    (v_dim, sinks): (usize, Option<&[f32]>),
    out: &mut [f32],
) {
    for (block, (out, states)) in out.chunks_mut(LANES * v_dim).zip(buffers.states.iter()).enumerate() {
        for (i, out) in out.chunks_exact_mut(v_dim).enumerate() {
            divide(s, &states.joined, i, sink(sinks, block * LANES + i), out);
        }
    }
}

/// Elements of the part of one row and chunk: maximum, sum and 14 unused ones, then the weighted values in whole sixteens.
pub const fn part_len(v_dim: usize) -> usize {
    LANES + v_dim.next_multiple_of(LANES)
}

/// Writes the chunk in the buffers as a part.
#[inline(always)]
pub(super) fn store_chunk(buffers: &Buffers<'_>, v_dim: usize, parts: &mut [f32]) {
    let (len, stride) = (part_len(v_dim), v_dim.div_ceil(LANES));
    let rows = parts.chunks_exact_mut(len).zip(buffers.sums.chunks_exact(stride));
    for (row, (part, values)) in rows.enumerate() {
        let states = &buffers.states[row / LANES].chunk;
        (part[0], part[1]) = (states.max[row % LANES], states.sum[row % LANES]);
        part[LANES..].copy_from_slice(values.as_flattened());
    }
}

/// Arguments of [`merge_attention`].
#[derive(Debug)]
pub struct MergeArgs<'a> {
    /// Elements of a value.
    pub v_dim: usize,
    /// The parts of all visible chunks: `[chunks, rows]` of [`part_len`] elements.
    pub parts: &'a [f32],
    /// As [`AttentionArgs::sinks`](super::AttentionArgs::sinks).
    pub sinks: Option<&'a [f32]>,
    /// The results: `[rows, v_dim]`.
    pub out: &'a mut [f32],
}

/// Joins the parts that [`attention`](super::attention) gives to the results that it gives whole.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn merge_attention<S: Simd>(s: S, args: &mut MergeArgs<'_>) {
    let (v_dim, len) = (args.v_dim, part_len(args.v_dim));
    let rows = args.out.len() / v_dim;
    assert_eq!(args.out.len(), rows * v_dim, "merge: elements of out");
    assert!(args.parts.len().is_multiple_of((rows * len).max(1)), "merge: elements of parts");
    for (block, out) in args.out.chunks_mut(LANES * v_dim).enumerate() {
        let mut states = RowStates { chunk: States::NONE, joined: States::NONE };
        for parts in args.parts.chunks_exact(rows * len) {
            let parts = &parts[block * LANES * len..][..out.len() / v_dim * len];
            for (i, part) in parts.chunks_exact(len).enumerate() {
                (states.chunk.max[i], states.chunk.sum[i]) = (part[0], part[1]);
            }
            let scales = join(s, &mut states);
            let rows = out.chunks_exact_mut(v_dim).zip(parts.chunks_exact(len));
            for ((out, part), scale) in rows.zip(scales) {
                join_values(s, scale, part[LANES..].as_chunks().0, out);
            }
        }
        for (i, out) in out.chunks_exact_mut(v_dim).enumerate() {
            divide(s, &states.joined, i, sink(args.sinks, block * LANES + i), out);
        }
    }
}
