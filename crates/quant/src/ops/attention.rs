//! Softmax attention over the pages of a sequence.

use std::ops::Range;

use crate::kv::{KvElem, KvPages};
use crate::num::{LANES, Simd, math};

/// Keys of a chunk. Chunks begin at multiples of this position, whatever is visible.
pub const CHUNK_KEYS: usize = 256;

/// Arguments of [`attention`].
#[derive(Debug)]
pub struct AttentionArgs<'a, T> {
    /// The pages of the sequence in one layer.
    pub pages: KvPages<'a, T>,
    /// The KV head.
    pub head: usize,
    /// The positions that the queries see.
    pub visible: Range<usize>,
    /// The factor of the scores.
    pub scale: f32,
    /// The queries of one token that share the KV head: `[queries, k_dim]`.
    pub q: &'a [f32],
    /// The results: `[queries, v_dim]`.
    pub out: &'a mut [f32],
}

/// The running state of one query: maximum, sum of the weights. The weighted values stand in the output.
#[derive(Clone, Copy)]
struct Softmax {
    max: f32,
    sum: f32,
}

/// `out = softmax(scale * q . k) v` over the visible positions; zeros if there are none.
///
/// Scores are FMA chains over increasing elements, times `scale`. Keys are taken in chunks of [`CHUNK_KEYS`] at
/// absolute positions: maximum, `p = exp(score - max)`, 16-lane sum of `p` by position, values as FMA chains over
/// increasing positions. Chunks are merged in increasing order.
///
/// # Panics
/// If the lengths do not fit the shape of the pages or a visible position has no page.
#[inline(always)]
pub fn attention<S: Simd, T: KvElem>(s: S, args: &mut AttentionArgs<'_, T>) {
    let shape = args.pages.shape();
    let queries = args.q.len() / shape.k_dim;
    assert_eq!(args.q.len(), queries * shape.k_dim, "attention: elements of q");
    assert_eq!(args.out.len(), queries * shape.v_dim, "attention: elements of out");
    args.out.fill(0.0);
    for (q, out) in args.q.chunks_exact(shape.k_dim).zip(args.out.chunks_exact_mut(shape.v_dim)) {
        let mut state: Option<Softmax> = None;
        let mut from = args.visible.start;
        while from < args.visible.end {
            let to = args.visible.end.min((from / CHUNK_KEYS + 1) * CHUNK_KEYS);
            let mut p = [0.0; CHUNK_KEYS];
            let chunk = weights(s, &args.pages, args.head, (q, args.scale), from..to, &mut p);
            state = Some(merge(s, state, chunk, out, |i| {
                weighted_values(s, &args.pages, args.head, i, from..to, &p)
            }));
            from = to;
        }
        if let Some(Softmax { sum, .. }) = state {
            let inv = 1.0 / sum;
            out.iter_mut().for_each(|o| *o *= inv);
        }
    }
}

/// `p = exp(score - max)` of the visible positions of one chunk, each at its position modulo the chunk; the maximum
/// and the sum.
#[inline(always)]
fn weights<S: Simd, T: KvElem>(
    s: S,
    pages: &KvPages<'_, T>,
    head: usize,
    (q, scale): (&[f32], f32),
    visible: Range<usize>,
    p: &mut [f32; CHUNK_KEYS],
) -> Softmax {
    let mut max = s.splat(f32::NEG_INFINITY);
    let groups = visible.start / LANES..visible.end.div_ceil(LANES);
    let (p, _) = p.as_chunks_mut::<LANES>();
    for group in groups.clone() {
        let keys = pages.keys(head, group * LANES);
        let mut score = s.splat(0.0);
        for (&q, k) in q.iter().zip(keys) {
            score = s.fma(s.splat(q), T::load(s, k), score);
        }
        score = s.mul(score, s.splat(scale));
        let base = group * LANES;
        let p = &mut p[group % (CHUNK_KEYS / LANES)];
        s.store(score, p);
        if base < visible.start || base + LANES > visible.end {
            for (i, p) in p.iter_mut().enumerate() {
                if !visible.contains(&(base + i)) {
                    *p = f32::NEG_INFINITY;
                }
            }
            score = s.load(p);
        }
        max = s.max(score, max);
    }
    let max = s.reduce_max(max);
    let mut sum = s.splat(0.0);
    for group in groups {
        let p = &mut p[group % (CHUNK_KEYS / LANES)];
        let weight = math::exp(s, s.sub(s.load(p), s.splat(max)));
        sum = s.add(sum, weight);
        s.store(weight, p);
    }
    Softmax { max, sum: s.reduce_add(sum) }
}

/// Sixteen elements, from `16 i`, of the sum of the visible values of one chunk times their weights.
#[inline(always)]
fn weighted_values<S: Simd, T: KvElem>(
    s: S,
    pages: &KvPages<'_, T>,
    head: usize,
    i: usize,
    visible: Range<usize>,
    p: &[f32; CHUNK_KEYS],
) -> S::F {
    let mut sum = s.splat(0.0);
    for position in visible {
        let value = T::load(s, &pages.value(head, position)[i]);
        sum = s.fma(s.splat(p[position % CHUNK_KEYS]), value, sum);
    }
    sum
}

/// Joins a chunk to what came before it: `M' = max(M, m)`, both sides scaled by `exp` of the difference.
#[inline(always)]
fn merge<S: Simd>(
    s: S,
    before: Option<Softmax>,
    chunk: Softmax,
    out: &mut [f32],
    values: impl Fn(usize) -> S::F,
) -> Softmax {
    let Some(before) = before else {
        for (i, out) in out.chunks_mut(LANES).enumerate() {
            s.store_part(values(i), out);
        }
        return chunk;
    };
    let max = if before.max > chunk.max { before.max } else { chunk.max };
    let mut factors = [0.0; LANES];
    (factors[0], factors[1]) = (before.max - max, chunk.max - max);
    let [old, new, ..] = s.to_array(math::exp(s, s.load(&factors)));
    for (i, out) in out.chunks_mut(LANES).enumerate() {
        let scaled = s.mul(s.load_part(out), s.splat(old));
        s.store_part(s.fma(values(i), s.splat(new), scaled), out);
    }
    Softmax { max, sum: crate::num::fma(chunk.sum, new, before.sum * old) }
}
