//! What recurrences have in common: heads whose states consist of tiles, and the pieces in which they are worked on.

use std::array;
use std::ops::Range;

use crate::args::OutMat;
use crate::num::{LANES, Simd};

/// The heads of a recurrence. A head's state has a row of `dim` elements for each of `depth` elements of what is written and
/// read with. It is kept in tiles of sixteen elements of the rows, which do not depend on each other.
pub trait HeadScan {
    /// Heads.
    fn heads(&self) -> usize;

    /// Elements of a head's results.
    fn dim(&self) -> usize;

    /// Elements of the state for each of them.
    fn depth(&self) -> usize;

    /// Elements of the results of a token.
    fn out_len(&self) -> usize {
        self.heads() * self.dim()
    }

    /// Tiles of a head's state.
    fn tiles(&self) -> usize {
        self.dim().div_ceil(LANES)
    }

    /// Elements of a tile: `[depth, 16]`, zeros where a row has fewer elements.
    fn tile_len(&self) -> usize {
        self.depth() * LANES
    }

    /// Elements of the state: `[heads, tiles, depth, 16]`.
    fn state_len(&self) -> usize {
        self.heads() * self.tiles() * self.tile_len()
    }
}

/// Some tiles of a head, for consecutive tokens of a sequence.
#[derive(Debug)]
pub struct ScanPiece<'a> {
    /// The head.
    pub head: usize,
    /// Its tiles that are worked on.
    pub tiles: Range<usize>,
    /// Their state before the first token: `[tiles, depth, 16]`.
    pub before: &'a [f32],
    /// Their state after the last.
    pub after: &'a mut [f32],
    /// The results: for each token the elements of the tiles.
    pub out: OutMat<'a>,
}

impl ScanPiece<'_> {
    /// # Panics
    /// If it is no piece of such heads for so many tokens.
    pub(super) fn check(&self, what: &str, shape: &impl HeadScan, tokens: usize) {
        let Range { start, end } = self.tiles;
        assert!(self.head < shape.heads() && start < end && end <= shape.tiles(), "{what}: tiles");
        for (state, len) in [("before", self.before.len()), ("after", self.after.len())] {
            assert_eq!(len, self.tiles.len() * shape.tile_len(), "{what}: elements {state}");
        }
        let columns = shape.dim().min(end * LANES) - start * LANES;
        assert!(self.out.tokens() == tokens && self.out.rows() == columns, "{what}: results");
    }
}

/// What a tile holds for one element of the depth.
pub(super) type Lane = [f32; LANES];

/// Joins the four chains of every tile.
#[inline(always)]
pub(super) fn join<S: Simd, const G: usize>(s: S, sums: [[S::F; G]; 4]) -> [S::F; G] {
    let mut joined = [s.splat(0.0); G];
    for (g, joined) in joined.iter_mut().enumerate() {
        *joined = s.add(s.add(sums[0][g], sums[1][g]), s.add(sums[2][g], sums[3][g]));
    }
    joined
}

/// `G` tiles of a depth.
#[inline(always)]
pub(super) fn tiles<const G: usize>(state: &[Lane], depth: usize) -> [&[Lane]; G] {
    array::from_fn(|g| &state[g * depth..][..depth])
}

/// `G` tiles of a depth, to write.
#[inline(always)]
pub(super) fn tiles_mut<const G: usize>(state: &mut [Lane], depth: usize) -> [&mut [Lane]; G] {
    let mut rest = state;
    array::from_fn(|_| {
        let (tile, others) = std::mem::take(&mut rest).split_at_mut(depth);
        rest = others;
        tile
    })
}
