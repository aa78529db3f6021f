//! The gated delta rule: linear attention over a state that every token decays and corrects.

use std::ops::Range;

use super::scan::{HeadScan, Lane, ScanPiece, join, tiles, tiles_mut};
use crate::num::{LANES, Simd, math, sum};

/// Tokens whose queries and keys are brought to their norms before they meet the state: few enough for the first-level
/// cache, many enough that a part of the state is worth fetching.
const BLOCK: usize = 32;

/// Tokens from one to the one that is asked for meanwhile.
const TOKENS_AHEAD: usize = 3;

/// How the heads of values share those of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadOrder {
    /// Consecutive heads of values have one key head in common.
    Grouped,
    /// Heads of values at a distance of as many as there are key heads have one in common.
    Tiled,
}

/// The heads of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeltaShape {
    /// Heads of queries and of keys.
    pub k_heads: usize,
    /// Heads of values, a multiple of those of keys.
    pub v_heads: usize,
    /// Elements of a query and of a key.
    pub k_dim: usize,
    /// Elements of a value.
    pub v_dim: usize,
    /// Which of them belong together.
    pub order: HeadOrder,
}

impl DeltaShape {
    /// Elements of the queries, keys and values of a token.
    pub fn row_len(&self) -> usize {
        2 * self.k_heads * self.k_dim + self.out_len()
    }

    fn k_head(&self, head: usize) -> usize {
        match self.order {
            HeadOrder::Grouped => head / (self.v_heads / self.k_heads),
            HeadOrder::Tiled => head % self.k_heads,
        }
    }
}

impl HeadScan for DeltaShape {
    fn heads(&self) -> usize {
        self.v_heads
    }

    fn dim(&self) -> usize {
        self.v_dim
    }

    fn depth(&self) -> usize {
        self.k_dim
    }
}

/// What queries and keys are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QkNorm {
    /// Nothing.
    None,
    /// `sqrt(sum(x^2) + eps)`
    L2 {
        /// Added to the sum.
        eps: f32,
    },
    /// `sqrt(sum(x^2) / n + eps)`
    Rms {
        /// Added to the mean.
        eps: f32,
    },
}

/// The gated delta rule of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeltaRule {
    /// The heads.
    pub shape: DeltaShape,
    /// What queries and keys are divided by.
    pub norm: QkNorm,
    /// What queries are multiplied by after it.
    pub q_scale: f32,
    /// What keys are multiplied by after it.
    pub k_scale: f32,
}

/// Arguments of [`delta_rule`].
#[derive(Debug)]
pub struct DeltaRuleArgs<'a> {
    /// The rule.
    pub rule: DeltaRule,
    /// Consecutive tokens of a sequence: the queries of all heads, then their keys, then the values.
    pub rows: &'a [f32],
    /// For each token and head of values what the decay comes from: `[tokens, v_heads]`.
    pub a: &'a [f32],
    /// For each token and head of values what the strength of the correction comes from: `[tokens, v_heads]`.
    pub b: &'a [f32],
    /// The factor of the decay of each head of values, not above zero.
    pub a_scale: &'a [f32],
    /// What is added to `a` of each head of values.
    pub a_bias: &'a [f32],
    /// The head of values that is worked on, and its tiles that are.
    pub piece: ScanPiece<'a>,
    /// Scratch.
    pub scratch: &'a mut Vec<f32>,
}

/// For each token: `S = S exp(g)`, `delta = beta (v - S^T k)`, `S = S + k delta^T`, `out = S^T q`, with
/// `g = a_scale softplus(a + a_bias)` and `beta = sigmoid(b)`.
///
/// Sums over `k_dim` are four chains of FMAs from zero, that of element `i` being `i mod 4`, joined as `(0 + 1) + (2 + 3)`.
///
/// Source: Yang et al., "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn delta_rule<S: Simd>(s: S, args: &mut DeltaRuleArgs<'_>) {
    let tokens = args.check();
    if tokens == 0 {
        args.piece.after.copy_from_slice(args.piece.before);
    }
    let mut scratch = std::mem::take(args.scratch);
    let (keys, width) = (2 * BLOCK * args.rule.shape.k_dim, args.piece.tiles.len() * LANES);
    scratch.resize(scratch.len().max(keys + BLOCK * width), 0.0);
    let (qk, values) = scratch.split_at_mut(keys);
    let values = values[..BLOCK * width].as_chunks_mut().0;
    for first in (0..tokens).step_by(BLOCK) {
        let tokens = first..tokens.min(first + BLOCK);
        let gates = prepare(s, args, tokens.clone(), (qk, values));
        let mut block = Block { tokens, gates, qk, values };
        let tiles = args.piece.tiles.len();
        let mut tile = 0;
        // One pass over the state for a token's last step and the next token's first has twice the sums.
        if S::REGISTERS >= 32 {
            while tile + 2 <= tiles {
                run::<S, 2, true>(s, args, &mut block, tile);
                tile += 2;
            }
        }
        while tile < tiles {
            run::<S, 1, false>(s, args, &mut block, tile);
            tile += 1;
        }
        for (token, row) in block.tokens.zip(values.chunks_exact(tiles)) {
            args.piece.out.store(token, 0, &row.as_flattened()[..args.piece.out.rows()]);
        }
    }
    *args.scratch = scratch;
}

impl DeltaRuleArgs<'_> {
    /// The number of tokens.
    fn check(&self) -> usize {
        let shape = self.rule.shape;
        let width = shape.row_len();
        let tokens = self.rows.len() / width.max(1);
        assert!(shape.k_heads > 0 && shape.v_heads.is_multiple_of(shape.k_heads), "delta rule: {shape:?}");
        self.piece.check("delta rule", &shape, tokens);
        assert_eq!(self.rows.len(), tokens * width, "delta rule: elements of rows");
        for (what, len) in [("a", self.a.len()), ("b", self.b.len())] {
            assert_eq!(len, tokens * shape.v_heads, "delta rule: elements of {what}");
        }
        for (what, len) in [("factors", self.a_scale.len()), ("biases", self.a_bias.len())] {
            assert_eq!(len, shape.v_heads, "delta rule: {what}");
        }
        tokens
    }
}

/// `exp(g)` and `beta` of the tokens of a block.
type Gates = [[f32; BLOCK]; 2];

/// Tokens that have been prepared.
struct Block<'a> {
    tokens: Range<usize>,
    gates: Gates,
    /// For each token its query, then its key.
    qk: &'a [f32],
    /// For each token the elements of its value that the tiles are of, and the results in their place.
    values: &'a mut [Lane],
}

/// Brings queries and keys to their norms, collects the values, and computes what a token does to the state.
///
/// Rows of tokens lie far apart: each is asked for before it is needed.
#[inline(always)]
fn prepare<S: Simd>(
    s: S,
    args: &DeltaRuleArgs<'_>,
    tokens: Range<usize>,
    (qk, values): (&mut [f32], &mut [Lane]),
) -> Gates {
    let DeltaRule { shape, norm, q_scale, k_scale } = args.rule;
    let (heads, dim) = (shape.v_heads, shape.k_dim);
    let (mut decay, mut beta) = ([0.0; BLOCK], [0.0; BLOCK]);
    let k_head = shape.k_head(args.piece.head);
    let starts = [k_head * dim, (shape.k_heads + k_head) * dim];
    let from = 2 * shape.k_heads * dim + args.piece.head * shape.v_dim + args.piece.tiles.start * LANES;
    let values = values.chunks_exact_mut(args.piece.tiles.len());
    for ((i, token), values) in tokens.enumerate().zip(values) {
        let ahead = args.rows.as_ptr().wrapping_add((token + TOKENS_AHEAD) * shape.row_len());
        for (from, len) in [(starts[0], dim), (starts[1], dim), (from, args.piece.out.rows())] {
            for at in (0..len).step_by(LANES) {
                s.prefetch(ahead.wrapping_add(from + at).cast());
            }
        }
        let row = &args.rows[token * shape.row_len()..];
        let value = row[from..][..args.piece.out.rows()].chunks(LANES);
        for (value, to) in value.zip(values) {
            s.store(s.load_part(value), to);
        }
        let at = token * heads + args.piece.head;
        decay[i] = args.a_scale[args.piece.head] * math::softplus(args.a[at] + args.a_bias[args.piece.head]);
        beta[i] = args.b[at];
        let to = &mut qk[2 * i * dim..][..2 * dim];
        let (q, k) = to.split_at_mut(dim);
        for (to, from, scale) in [(q, starts[0], q_scale), (k, starts[1], k_scale)] {
            let x = &row[from..][..dim];
            let inv = match norm {
                QkNorm::None => 1.0,
                QkNorm::L2 { eps } => 1.0 / (sum::squares(s, x) + eps).sqrt(),
                QkNorm::Rms { eps } => 1.0 / (sum::squares(s, x) / dim as f32 + eps).sqrt(),
            };
            let (inv, scale) = (s.splat(inv), s.splat(scale));
            for (x, to) in x.chunks(LANES).zip(to.chunks_mut(LANES)) {
                s.store_part(s.mul(s.mul(s.load_part(x), inv), scale), to);
            }
        }
    }
    for decay in decay.as_chunks_mut::<LANES>().0 {
        s.store(math::exp(s, s.load(decay)), decay);
    }
    for beta in beta.as_chunks_mut::<LANES>().0 {
        s.store(math::sigmoid(s, s.load(beta)), beta);
    }
    [decay, beta]
}

/// Runs the tokens of a block over `G` tiles from one on; with `AHEAD` a pass over the state ends a token and begins the
/// next.
#[inline(always)]
fn run<S: Simd, const G: usize, const AHEAD: bool>(
    s: S,
    args: &mut DeltaRuleArgs<'_>,
    block: &mut Block<'_>,
    tile: usize,
) {
    let shape = args.rule.shape;
    let dim = shape.k_dim;
    let span = tile * shape.tile_len()..(tile + G) * shape.tile_len();
    let before: [&[Lane]; G] = tiles(args.piece.before[span.clone()].as_chunks().0, dim);
    let mut state: [&mut [Lane]; G] = tiles_mut(args.piece.after[span].as_chunks_mut().0, dim);
    let [decay, beta] = &block.gates;
    let mut kv = [s.splat(0.0); G];
    for (i, token) in block.tokens.clone().enumerate() {
        let (q, k) = block.qk[2 * i * dim..][..2 * dim].split_at(dim);
        if token == 0 {
            kv = absorb::<S, G, true>(s, before, &mut state, (k, decay[i]));
        } else if i == 0 || !AHEAD {
            kv = absorb::<S, G, false>(s, before, &mut state, (k, decay[i]));
        }
        let values = &mut block.values[i * args.piece.tiles.len() + tile..][..G];
        let mut delta = kv;
        for (delta, value) in delta.iter_mut().zip(values.iter()) {
            *delta = s.mul(s.splat(beta[i]), s.sub(s.load(value), *delta));
        }
        let out;
        if AHEAD && token + 1 < block.tokens.end {
            let next = (&block.qk[(2 * i + 3) * dim..][..dim], decay[i + 1]);
            (out, kv) = correct::<S, G, true>(s, &mut state, (q, k), delta, next);
        } else {
            (out, _) = correct::<S, G, false>(s, &mut state, (q, k), delta, (k, 1.0));
        }
        for (&out, value) in out.iter().zip(values) {
            s.store(out, value);
        }
    }
}

/// `S = S decay`, and `S^T k` of it, from another state or in place.
#[inline(always)]
fn absorb<S: Simd, const G: usize, const FROM: bool>(
    s: S,
    from: [&[Lane]; G],
    state: &mut [&mut [Lane]; G],
    (k, decay): (&[f32], f32),
) -> [S::F; G] {
    let decay = s.splat(decay);
    let mut sums = [[s.splat(0.0); G]; 4];
    let (fours, rest) = k.as_chunks::<4>();
    for (i, k) in fours.iter().enumerate() {
        for (c, sums) in sums.iter_mut().enumerate() {
            absorb_one::<S, G, FROM>(s, (&from, state), 4 * i + c, (k[c], decay), sums);
        }
    }
    for (c, sums) in sums.iter_mut().enumerate() {
        if let Some(&k) = rest.get(c) {
            absorb_one::<S, G, FROM>(s, (&from, state), 4 * fours.len() + c, (k, decay), sums);
        }
    }
    join(s, sums)
}

/// [`absorb`] for one element of the key.
#[inline(always)]
fn absorb_one<S: Simd, const G: usize, const FROM: bool>(
    s: S,
    (from, state): (&[&[Lane]; G], &mut [&mut [Lane]; G]),
    at: usize,
    (k, decay): (f32, S::F),
    sums: &mut [S::F; G],
) {
    let k = s.splat(k);
    for (g, sum) in sums.iter_mut().enumerate() {
        let x = s.mul(s.load(if FROM { &from[g][at] } else { &state[g][at] }), decay);
        *sum = s.fma(x, k, *sum);
        s.store(x, &mut state[g][at]);
    }
}

/// `S = S + k delta^T` and `S^T q`; with `NEXT` then what [`absorb`] does with the next token's key and decay.
#[inline(always)]
fn correct<S: Simd, const G: usize, const NEXT: bool>(
    s: S,
    state: &mut [&mut [Lane]; G],
    (q, k): (&[f32], &[f32]),
    delta: [S::F; G],
    (next, decay): (&[f32], f32),
) -> ([S::F; G], [S::F; G]) {
    let decay = s.splat(decay);
    let (mut out, mut kv) = ([[s.splat(0.0); G]; 4], [[s.splat(0.0); G]; 4]);
    let ((q4, q), (k4, k), (n4, next)) = (q.as_chunks::<4>(), k.as_chunks::<4>(), next.as_chunks::<4>());
    for (i, ((q, k), next)) in q4.iter().zip(k4).zip(n4).enumerate() {
        for (c, (out, kv)) in out.iter_mut().zip(&mut kv).enumerate() {
            let factors = (q[c], k[c], next[c], decay);
            correct_one::<S, G, NEXT>(s, state, 4 * i + c, factors, &delta, (out, kv));
        }
    }
    for (c, (out, kv)) in out.iter_mut().zip(&mut kv).enumerate() {
        if c < q.len() {
            let factors = (q[c], k[c], next[c], decay);
            correct_one::<S, G, NEXT>(s, state, 4 * q4.len() + c, factors, &delta, (out, kv));
        }
    }
    (join(s, out), join(s, kv))
}

/// [`correct`] for one element of query and keys.
#[inline(always)]
fn correct_one<S: Simd, const G: usize, const NEXT: bool>(
    s: S,
    state: &mut [&mut [Lane]; G],
    at: usize,
    (q, k, next, decay): (f32, f32, f32, S::F),
    delta: &[S::F; G],
    (out, kv): (&mut [S::F; G], &mut [S::F; G]),
) {
    let (q, k, next) = (s.splat(q), s.splat(k), s.splat(next));
    for (g, (out, kv)) in out.iter_mut().zip(kv).enumerate() {
        let mut x = s.fma(k, delta[g], s.load(&state[g][at]));
        *out = s.fma(x, q, *out);
        if NEXT {
            x = s.mul(x, decay);
            *kv = s.fma(x, next, *kv);
        }
        s.store(x, &mut state[g][at]);
    }
}

#[cfg(test)]
mod tests;
