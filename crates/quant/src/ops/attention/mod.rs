//! Softmax attention over the pages of a sequence.
//!
//! A tile is some consecutive tokens of a sequence with the queries that share a KV head: its rows. For each chunk of keys
//! all rows of a tile are worked on together, page after page, so that the keys and values of a page are brought to f32
//! once for all of them and stay in the nearest cache.

mod codes;
mod floats;
mod join;
mod scratch;
mod softmax;
mod tiles;

use std::ops::Range;

pub use join::{MergeArgs, merge_attention, part_len};
pub use scratch::AttentionScratch;

use self::codes::Codes;
use self::floats::Floats;
use self::scratch::Buffers;
use self::tiles::Rows;
use crate::acts::Q8x32;
use crate::kv::{KvElem, KvPages, KvType, KvUnit, PAGE_KEYS, Q8Unit};
use crate::num::{Dot, LANES, Simd};

/// Keys of a chunk. Chunks begin at multiples of this position, whatever is visible.
pub const CHUNK_KEYS: usize = 256;

/// Sixteens of keys in a chunk.
const GROUPS: usize = CHUNK_KEYS / LANES;

const _: () = assert!(CHUNK_KEYS.is_multiple_of(PAGE_KEYS) && PAGE_KEYS.is_multiple_of(LANES));

/// What the tokens of a tile see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visible {
    /// The end of the positions that the first token sees. Each further token sees to one position more.
    pub end: usize,
    /// The most positions that a token sees, the last ones; all of them without a window.
    pub window: Option<usize>,
}

impl Visible {
    /// The positions that a token of the tile sees.
    pub fn of(&self, token: usize) -> Range<usize> {
        let end = self.end + token;
        self.window.map_or(0, |window| end.saturating_sub(window))..end
    }

    /// The chunks with a position that one of the first `tokens` tokens sees.
    pub fn chunks(&self, tokens: usize) -> Range<usize> {
        let (first, last) = (self.of(0), self.of(tokens.max(1) - 1));
        first.start / CHUNK_KEYS..last.end.div_ceil(CHUNK_KEYS)
    }
}

/// Where the results of [`attention`] go.
#[derive(Debug)]
pub enum AttentionOut<'a> {
    /// The results: `[tokens, queries, v_dim]`.
    Whole(&'a mut [f32]),
    /// Some chunks, each on its own, for [`merge_attention`].
    Parts {
        /// The chunks.
        chunks: Range<usize>,
        /// The parts: `[chunks, tokens, queries]` of [`part_len`] elements.
        parts: &'a mut [f32],
    },
}

/// Arguments of [`attention`].
#[derive(Debug)]
pub struct AttentionArgs<'a, T> {
    /// The pages of the sequence in one layer.
    pub pages: KvPages<'a, T>,
    /// The KV head.
    pub head: usize,
    /// Consecutive tokens.
    pub tokens: usize,
    /// What they see.
    pub visible: Visible,
    /// The factor of the scores.
    pub scale: f32,
    /// What scores are capped to after it, if anything: [`soft_cap`](crate::num::math::soft_cap).
    pub soft_cap: Option<f32>,
    /// A score of no key for each query of a token, which joins the sum of the weights.
    pub sinks: Option<&'a [f32]>,
    /// The queries of the tokens that share the KV head: `[tokens, queries, k_dim]`.
    pub q: &'a [f32],
    /// The results.
    pub out: AttentionOut<'a>,
    /// Memory to work in.
    pub scratch: &'a mut AttentionScratch,
}

/// `out = softmax(scale * q . k) v` over the visible positions; zeros if there are none.
///
/// With sinks, the softmax is over the scores and the sink of the query; if no key is visible the result is zero all the same.
///
/// Scores are FMA chains over increasing elements, times `scale`, then capped. Keys are taken in chunks of [`CHUNK_KEYS`] at
/// absolute positions: maximum, `p = exp(score - max)`, 16-lane sum of `p` by position, values as FMA chains over
/// increasing positions. Chunks are merged in increasing order, then the sink joins: `M' = max(M, sink)`, values and sum are
/// scaled by `exp(M - M')` and `exp(sink - M')` is added to the sum.
///
/// How many tokens are in a tile, how many rows, keys and elements are worked on side by side, and whether the chunks are
/// merged here or by [`merge_attention`], changes nothing in the order of the operations of a result.
///
/// # Panics
/// If the lengths do not fit the shape of the pages or a visible position has no page.
#[inline(always)]
pub fn attention<S: Simd, T: KvElem>(s: S, args: &mut AttentionArgs<'_, T>) {
    let shape = args.pages.shape();
    let rows = rows_of(args);
    let source = Floats { pages: args.pages, head: args.head, rows, q: args.q };
    let buffers = &mut args.scratch.buffers(rows.count, shape).0;
    run(s, &source, (shape.v_dim, args.sinks), buffers, &mut args.out);
}

/// As [`attention`], over a cache of type q8_0: the query is quantized in blocks of 32 as activations are
/// ([`Q8x32`](crate::acts::Q8x32)), a score is the chain `fma(k_scale * q_scale, sum as f32, score)` over increasing
/// blocks with exact sums of products of codes, and a value is its code times its scale.
///
/// # Panics
/// As [`attention`], and if heads are not whole blocks.
#[inline(always)]
pub fn attention_q8_0<S: Dot>(s: S, args: &mut AttentionArgs<'_, Q8Unit>) {
    let shape = args.pages.shape();
    assert!(KvType::Q8_0.fits(shape), "attention: heads of {} and {} elements", shape.k_dim, shape.v_dim);
    let rows = rows_of(args);
    let (mut buffers, records) = args.scratch.buffers(rows.count, shape);
    records.clear();
    records.extend(args.q.as_chunks().0.iter().map(Q8x32::quantize));
    let source = Codes { pages: args.pages, head: args.head, rows, q: records };
    run(s, &source, (shape.v_dim, args.sinks), &mut buffers, &mut args.out);
}

/// The rows of a call.
fn rows_of<T: KvUnit>(args: &AttentionArgs<'_, T>) -> Rows {
    let k_dim = args.pages.shape().k_dim;
    let count = args.q.len() / k_dim;
    assert_eq!(args.q.len(), count * k_dim, "attention: elements of q");
    assert!(args.tokens > 0 && count > 0 && count.is_multiple_of(args.tokens), "attention: {count} rows");
    Rows {
        visible: args.visible,
        queries: count / args.tokens,
        count,
        scale: args.scale,
        soft_cap: args.soft_cap,
    }
}

/// Rows over a cache of some type.
trait Source<S> {
    /// The rows.
    fn rows(&self) -> &Rows;

    /// The scores of the keys of a page that some row sees. The pages of the chunk with such keys are `pages`.
    fn scores(&self, s: S, page: usize, pages: &Range<usize>, buffers: &mut Buffers<'_>);

    /// Adds the values of a page times their weights to the sums of the rows that see them.
    fn values(&self, s: S, page: usize, pages: &Range<usize>, buffers: &mut Buffers<'_>);
}

/// Computes all chunks, or those of the parts.
#[inline(always)]
fn run<S: Simd>(
    s: S,
    source: &impl Source<S>,
    (v_dim, sinks): (usize, Option<&[f32]>),
    buffers: &mut Buffers<'_>,
    out: &mut AttentionOut<'_>,
) {
    let rows = source.rows();
    match out {
        AttentionOut::Whole(out) => {
            assert_eq!(out.len(), rows.count * v_dim, "attention: elements of out");
            let seen = rows.span(0..rows.count).0;
            for chunk in seen.start / CHUNK_KEYS..seen.end.div_ceil(CHUNK_KEYS) {
                run_chunk(s, source, chunk, buffers);
                join::add_chunk(s, buffers, v_dim, out);
            }
            join::finish(s, buffers, (v_dim, sinks), out);
        }
        AttentionOut::Parts { chunks, parts } => {
            let len = rows.count * part_len(v_dim);
            assert_eq!(parts.len(), chunks.len() * len, "attention: elements of parts");
            for (chunk, parts) in chunks.clone().zip(parts.chunks_exact_mut(len.max(1))) {
                run_chunk(s, source, chunk, buffers);
                join::store_chunk(buffers, v_dim, parts);
            }
        }
    }
}

/// Maximum, sum of the weights and weighted values of every row over one chunk.
#[inline(always)]
fn run_chunk<S: Simd>(s: S, source: &impl Source<S>, chunk: usize, buffers: &mut Buffers<'_>) {
    let (rows, begin) = (source.rows(), chunk * CHUNK_KEYS);
    let inside = |position: usize| position.clamp(begin, begin + CHUNK_KEYS);
    let all = rows.span(0..rows.count).0;
    let pages = inside(all.start) / PAGE_KEYS..inside(all.end).div_ceil(PAGE_KEYS);
    for page in pages.clone() {
        source.scores(s, page, &pages, buffers);
    }
    for row in 0..rows.count {
        let seen = rows.span(row..row + 1).0;
        let lanes = inside(seen.start) - begin..inside(seen.end) - begin;
        let (max, sum) = softmax::weigh(s, lanes, rows.soft_cap, &mut buffers.weights[row]);
        let states = &mut buffers.states[row / LANES].chunk;
        (states.max[row % LANES], states.sum[row % LANES]) = (max, sum);
    }
    buffers.sums.as_flattened_mut().fill(0.0);
    for page in pages.clone() {
        source.values(s, page, &pages, buffers);
    }
}

#[cfg(test)]
mod tests;
