//! The selective state space scan of Mamba-2.

use std::array;
use std::ops::Range;

use super::scan::{HeadScan, Lane, ScanPiece, join, tiles, tiles_mut};
use crate::num::{LANES, Simd, math};

/// Tokens whose decays are computed together.
const BLOCK: usize = 32;

/// The heads of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateSpace {
    /// Heads.
    pub heads: usize,
    /// Groups of consecutive heads that have the same `B` and `C`.
    pub groups: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of the state for each of them.
    pub state_dim: usize,
}

impl StateSpace {
    /// Elements of a token: those of all heads, then `B` and `C` of all groups.
    pub fn row_len(&self) -> usize {
        self.out_len() + 2 * self.groups * self.state_dim
    }
}

impl HeadScan for StateSpace {
    fn heads(&self) -> usize {
        self.heads
    }

    fn dim(&self) -> usize {
        self.head_dim
    }

    fn depth(&self) -> usize {
        self.state_dim
    }
}

/// Arguments of [`state_space`].
#[derive(Debug)]
pub struct StateSpaceArgs<'a> {
    /// The heads.
    pub shape: StateSpace,
    /// Consecutive tokens of a sequence: all heads, then `B` of all groups, then `C`.
    pub rows: &'a [f32],
    /// For each token and head what its time step comes from: `[tokens, heads]`.
    pub dt: &'a [f32],
    /// What is added to it for each head.
    pub dt_bias: &'a [f32],
    /// The factor of the decay of each head, not above zero.
    pub a: &'a [f32],
    /// The factor of what skips the state of each head.
    pub skip: &'a [f32],
    /// The head that is worked on, and its tiles that are.
    pub piece: ScanPiece<'a>,
}

/// For each token, with `dt = softplus(dt + dt_bias)`: `S = fma(B, x dt, S exp(a dt))` and `out = fma(skip, x, S^T C)`.
///
/// Sums over `state_dim` are four chains of FMAs from zero, that of element `i` being `i mod 4`, joined as
/// `(0 + 1) + (2 + 3)`.
///
/// Source: Dao and Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space
/// Duality", 2024.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn state_space<S: Simd>(s: S, args: &mut StateSpaceArgs<'_>) {
    let tokens = args.check();
    if tokens == 0 {
        args.piece.after.copy_from_slice(args.piece.before);
    }
    for first in (0..tokens).step_by(BLOCK) {
        let block = Block::new(s, args, first..tokens.min(first + BLOCK));
        let (tiles, mut tile) = (args.piece.tiles.len(), 0);
        while tile + 2 <= tiles {
            run::<S, 2>(s, args, &block, tile);
            tile += 2;
        }
        if tile < tiles {
            run::<S, 1>(s, args, &block, tile);
        }
    }
}

impl StateSpaceArgs<'_> {
    /// The number of tokens.
    fn check(&self) -> usize {
        let shape = self.shape;
        let tokens = self.rows.len() / shape.row_len().max(1);
        assert!(shape.groups > 0 && shape.heads.is_multiple_of(shape.groups), "state space: {shape:?}");
        self.piece.check("state space", &shape, tokens);
        assert_eq!(self.rows.len(), tokens * shape.row_len(), "state space: elements of rows");
        assert_eq!(self.dt.len(), tokens * shape.heads, "state space: elements of dt");
        for (what, len) in
            [("biases", self.dt_bias.len()), ("factors", self.a.len()), ("skips", self.skip.len())]
        {
            assert_eq!(len, shape.heads, "state space: {what}");
        }
        tokens
    }
}

/// Some tokens, with their time steps and the decays of the head.
struct Block {
    tokens: Range<usize>,
    dt: [f32; BLOCK],
    decay: [f32; BLOCK],
}

impl Block {
    #[inline(always)]
    fn new<S: Simd>(s: S, args: &StateSpaceArgs<'_>, tokens: Range<usize>) -> Block {
        let (mut dt, mut decay) = ([0.0; BLOCK], [0.0; BLOCK]);
        let (heads, head) = (args.shape.heads, args.piece.head);
        for (i, token) in tokens.clone().enumerate() {
            dt[i] = math::softplus(args.dt[token * heads + head] + args.dt_bias[head]);
            decay[i] = args.a[head] * dt[i];
        }
        for decay in decay.as_chunks_mut::<LANES>().0 {
            s.store(math::exp(s, s.load(decay)), decay);
        }
        Block { tokens, dt, decay }
    }
}

/// Runs the tokens of a block over `G` tiles from one on.
#[inline(always)]
fn run<S: Simd, const G: usize>(s: S, args: &mut StateSpaceArgs<'_>, block: &Block, tile: usize) {
    let shape = args.shape;
    let dim = shape.state_dim;
    let span = tile * shape.tile_len()..(tile + G) * shape.tile_len();
    let before: [&[Lane]; G] = tiles(args.piece.before[span.clone()].as_chunks().0, dim);
    let mut state: [&mut [Lane]; G] = tiles_mut(args.piece.after[span].as_chunks_mut().0, dim);
    let group = args.piece.head / (shape.heads / shape.groups);
    let skip = s.splat(args.skip[args.piece.head]);
    for (i, token) in block.tokens.clone().enumerate() {
        let row = &args.rows[token * shape.row_len()..][..shape.row_len()];
        let (heads, bc) = row.split_at(shape.out_len());
        let (b, c) = (&bc[group * dim..][..dim], &bc[(shape.groups + group) * dim..][..dim]);
        let head = &heads[args.piece.head * shape.head_dim..][..shape.head_dim];
        let x: [S::F; G] = array::from_fn(|g| {
            let from = (args.piece.tiles.start + tile + g) * LANES;
            s.load_part(&head[from..shape.head_dim.min(from + LANES)])
        });
        let (dt, decay) = (s.splat(block.dt[i]), s.splat(block.decay[i]));
        let input = x.map(|x| s.mul(x, dt));
        let sums = match token {
            0 => step::<S, G, true>(s, before, &mut state, (b, c), (input, decay)),
            _ => step::<S, G, false>(s, before, &mut state, (b, c), (input, decay)),
        };
        for (g, (sum, x)) in sums.into_iter().zip(x).enumerate() {
            let from = (tile + g) * LANES;
            let len = LANES.min(args.piece.out.rows() - from);
            args.piece.out.store(token, from, &s.to_array(s.fma(skip, x, sum))[..len]);
        }
    }
}

/// `S = fma(b, input, S decay)`, from another state or in place, and `S^T c`.
#[inline(always)]
fn step<S: Simd, const G: usize, const FROM: bool>(
    s: S,
    from: [&[Lane]; G],
    state: &mut [&mut [Lane]; G],
    (b, c): (&[f32], &[f32]),
    (input, decay): ([S::F; G], S::F),
) -> [S::F; G] {
    let mut sums = [[s.splat(0.0); G]; 4];
    let mut element = |at: usize, sums: &mut [S::F; G]| {
        let (b, c) = (s.splat(b[at]), s.splat(c[at]));
        for (g, sum) in sums.iter_mut().enumerate() {
            let old = s.load(if FROM { &from[g][at] } else { &state[g][at] });
            let x = s.fma(b, input[g], s.mul(old, decay));
            *sum = s.fma(x, c, *sum);
            s.store(x, &mut state[g][at]);
        }
    };
    let whole = b.len() / 4 * 4;
    for first in (0..whole).step_by(4) {
        for (i, sums) in sums.iter_mut().enumerate() {
            element(first + i, sums);
        }
    }
    for (at, sums) in (whole..b.len()).zip(&mut sums) {
        element(at, sums);
    }
    join(s, sums)
}

#[cfg(test)]
mod tests;
