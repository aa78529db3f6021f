//! Register tiles: some rows by some sixteens of keys or of elements.

use std::array;
use std::ops::Range;

use super::scratch::Weights;
use super::{CHUNK_KEYS, GROUPS, Visible};
use crate::kv::{KvElem, PAGE_KEYS};
use crate::num::{LANES, Simd};

/// The queries of some consecutive tokens that share a KV head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) visible: Visible,
    /// Queries of a token.
    pub(super) queries: usize,
    /// Queries of all tokens.
    pub(super) count: usize,
    /// The factor of the scores.
    pub(super) scale: f32,
    /// What they are capped to.
    pub(super) soft_cap: Option<f32>,
}

impl Rows {
    /// The positions that any of some rows sees, and those that all of them see.
    #[inline(always)]
    pub(super) fn span(&self, rows: Range<usize>) -> (Range<usize>, Range<usize>) {
        let first = self.visible.of(rows.start / self.queries);
        let last = self.visible.of((rows.end - 1) / self.queries);
        (first.start..last.end, last.start..first.end)
    }

    /// Whether more than a register tile or two need the same keys and values.
    pub(super) fn are_many(&self) -> bool {
        self.count > 8
    }
}

/// What is done with some rows at a time.
pub(super) trait OnRows {
    /// Works on `R` rows from `row`, with `G` sixteens at a time.
    fn run<const R: usize, const G: usize>(&mut self, row: usize);
}

/// Does the work for all rows, in the tiles of the tier: `registers that it has at least: rows x sixteens ..`. Each list of
/// tiles ends with one of a single row.
macro_rules! tiles {
    ($simd:ident, $rows:expr, $work:expr; $($min:literal: $($r:literal x $g:literal)*;)*) => {
        $(
            if const { $simd::REGISTERS >= $min } {
                let mut row = 0;
                while row < $rows {
                    $(
                        if $rows - row >= $r {
                            $work.run::<$r, $g>(row);
                            row += $r;
                            continue;
                        }
                    )*
                }
                return;
            }
        )*
    };
}

/// Does work on f32 for all rows.
#[inline(always)]
pub(super) fn on_rows<S: Simd>(rows: usize, work: &mut impl OnRows) {
    tiles!(S, rows, work; 32: 4 x 4 2 x 4 1 x 4; 2: 2 x 2 1 x 4; 1: 1 x 1;);
}

/// Does work for all rows that has a sum of integers besides each sum of f32.
#[inline(always)]
pub(super) fn on_rows_of_codes<S: Simd>(rows: usize, work: &mut impl OnRows) {
    tiles!(S, rows, work; 32: 4 x 2 2 x 4 1 x 4; 2: 2 x 1 1 x 2; 1: 1 x 1;);
}

/// `range` within a page, from the page's start.
#[inline(always)]
pub(super) fn within(range: &Range<usize>, page: usize) -> Range<usize> {
    let (start, end) = (page * PAGE_KEYS, (page + 1) * PAGE_KEYS);
    range.start.clamp(start, end) - start..range.end.clamp(start, end) - start
}

/// Queries and the keys of one page.
pub(super) trait Keys<S: Simd> {
    /// The products of `R` queries from row `at.0` with the keys of `G` sixteens of the page from sixteen `at.1`.
    fn products<const R: usize, const G: usize>(
        &self,
        s: S,
        at: (usize, usize),
        ahead: &mut Ahead,
    ) -> [[S::F; G]; R];
}

/// The scores of one page.
pub(super) struct Scores<'a, S, K> {
    pub(super) s: S,
    pub(super) rows: &'a Rows,
    pub(super) page: usize,
    pub(super) keys: K,
    /// Where the scores go, each to its position within the chunk.
    pub(super) weights: &'a mut [Weights],
    pub(super) ahead: Ahead,
}

impl<S: Simd, K: Keys<S>> OnRows for Scores<'_, S, K> {
    /// Computes the scores of those sixteens of keys that one of the rows sees, from multiples of `G`.
    #[inline(always)]
    fn run<const R: usize, const G: usize>(&mut self, row: usize) {
        let s = self.s;
        let seen = within(&self.rows.span(row..row + R).0, self.page);
        if seen.is_empty() {
            return;
        }
        self.ahead.ask(s, self.ahead.share);
        let first = seen.start / LANES;
        for group in (first - first % G..seen.end.div_ceil(LANES)).step_by(G) {
            let products = self.keys.products::<R, G>(s, (row, group), &mut self.ahead);
            let to = self.page * (PAGE_KEYS / LANES) % GROUPS + group;
            for (products, weights) in products.iter().zip(&mut self.weights[row..row + R]) {
                for (&product, score) in products.iter().zip(&mut weights[to..to + G]) {
                    s.store(s.mul(product, s.splat(self.rows.scale)), score);
                }
            }
        }
    }
}

/// Brings sixteens to f32.
#[inline(always)]
pub(super) fn widen<S: Simd, T: KvElem>(s: S, from: &[[T; LANES]], to: &mut [[f32; LANES]]) {
    for (from, to) in from.iter().zip(to) {
        s.store(T::load(s, from), to);
    }
}

/// What will be read next, asked for little by little while something else is worked on.
pub(super) struct Ahead {
    at: *const u8,
    end: *const u8,
    /// Bytes for each row tile to ask for before it begins.
    pub(super) share: usize,
}

impl Ahead {
    /// Asks for `next` in equal parts before each tile of rows if these are many, else when told to.
    #[inline(always)]
    pub(super) fn new<X>(next: &[X], rows: &Rows, many: bool) -> Ahead {
        let range = next.as_ptr_range();
        let share = if many { size_of_val(next).div_ceil(rows.count.div_ceil(4)) } else { 0 };
        Ahead { at: range.start.cast(), end: range.end.cast(), share }
    }

    #[inline(always)]
    pub(super) fn ask<S: Simd>(&mut self, s: S, bytes: usize) {
        let end = self.at.wrapping_add(bytes).min(self.end);
        while self.at < end {
            s.prefetch(self.at);
            self.at = self.at.wrapping_add(64);
        }
    }
}

/// The weighted values of one page.
pub(super) struct Values<'a, S, E> {
    pub(super) s: S,
    pub(super) rows: &'a Rows,
    pub(super) page: usize,
    /// Sixteens of a value.
    pub(super) stride: usize,
    /// `[position][v_stride / 16]`
    pub(super) values: &'a [[E; LANES]],
    pub(super) weights: &'a [Weights],
    /// `[row][v_stride / 16]`
    pub(super) sums: &'a mut [[f32; LANES]],
    pub(super) ahead: Ahead,
}

impl<S: Simd, E: KvElem> OnRows for Values<'_, S, E> {
    #[inline(always)]
    fn run<const R: usize, const G: usize>(&mut self, row: usize) {
        self.ahead.ask(self.s, self.ahead.share);
        let (any, all) = self.rows.span(row..row + R);
        let (any, all) = (within(&any, self.page), within(&all, self.page));
        // Keys that all rows see have others before and after them: each row takes its own in increasing order.
        let all = if all.is_empty() { any.end..any.end } else { all };
        for (part, rows_only) in
            [(any.start..all.start, true), (all.clone(), false), (all.end..any.end, true)]
        {
            if part.is_empty() {
                continue;
            }
            if !rows_only {
                self.elements::<R, G>(row, part);
                continue;
            }
            for i in row..row + R {
                let seen = within(&self.rows.span(i..i + 1).0, self.page);
                self.elements::<1, G>(i, seen.start.max(part.start)..seen.end.min(part.end));
            }
        }
    }
}

impl<S: Simd, E: KvElem> Values<'_, S, E> {
    /// Adds the values of some positions of the page to the sums of `R` rows.
    #[inline(always)]
    fn elements<const R: usize, const G: usize>(&mut self, row: usize, positions: Range<usize>) {
        if positions.is_empty() {
            return;
        }
        let stride = self.stride;
        let mut first = 0;
        while first + G <= stride {
            self.some::<R, G>(row, positions.clone(), first);
            first += G;
        }
        while first < stride {
            self.some::<R, 1>(row, positions.clone(), first);
            first += 1;
        }
    }

    #[inline(always)]
    fn some<const R: usize, const G: usize>(&mut self, row: usize, positions: Range<usize>, first: usize) {
        let (s, stride) = (self.s, self.stride);
        let values = &self.values[positions.start * stride..positions.end * stride];
        let lane = self.page * PAGE_KEYS % CHUNK_KEYS + positions.start;
        let p: [&[f32]; R] =
            array::from_fn(|i| &self.weights[row + i].as_flattened()[lane..][..positions.len()]);
        let mut sums = [[s.splat(0.0); G]; R];
        for (i, sums) in sums.iter_mut().enumerate() {
            let from = &self.sums[(row + i) * stride + first..][..G];
            for (sum, from) in sums.iter_mut().zip(from) {
                *sum = s.load(from);
            }
        }
        for (k, value) in (0..positions.len()).zip(values.chunks_exact(stride)) {
            let value = &value[first..first + G];
            let mut v = [s.splat(0.0); G];
            for g in 0..G {
                v[g] = E::load(s, &value[g]);
            }
            if self.ahead.share == 0 {
                self.ahead.ask(s, 128);
            }
            for i in 0..R {
                let p = s.splat(p[i][k]);
                for g in 0..G {
                    sums[i][g] = s.fma(p, v[g], sums[i][g]);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            let to = &mut self.sums[(row + i) * stride + first..][..G];
            for (&sum, to) in sums.iter().zip(to) {
                s.store(sum, to);
            }
        }
    }
}
