//! Scores and values over caches of floats.

use std::array;
use std::ops::Range;

use super::scratch::{Buffers, Weights};
use super::tiles::{Ahead, OnRows, Rows, Values, on_rows, widen, within};
use super::{GROUPS, Source};
use crate::kv::{KvElem, KvPages, PAGE_KEYS};
use crate::num::{LANES, Simd};

/// Rows over a cache of floats.
pub(super) struct Floats<'a, T> {
    pub(super) pages: KvPages<'a, T>,
    pub(super) head: usize,
    pub(super) rows: Rows,
    pub(super) q: &'a [f32],
}

impl<S: Simd, T: KvElem> Source<S> for Floats<'_, T> {
    #[inline(always)]
    fn rows(&self) -> &Rows {
        &self.rows
    }

    #[inline(always)]
    fn scores(&self, s: S, page: usize, pages: &Range<usize>, buffers: &mut Buffers<'_>) {
        let (keys, k_dim) = (self.pages.keys(self.head, page), self.pages.shape().k_dim);
        let next = match page + 1 {
            next if next < pages.end => self.pages.keys(self.head, next),
            _ => self.pages.values(self.head, pages.start),
        };
        let (rows, q) = (&self.rows, self.q);
        let ahead = Ahead::new(next, rows, !T::IS_F32 && rows.are_many());
        let weights = &mut *buffers.weights;
        // A page that many rows need is brought to f32 before it is used.
        if const { !T::IS_F32 } && rows.are_many() {
            widen(s, keys, buffers.panel);
            let keys = &*buffers.panel;
            on_rows::<S>(rows.count, &mut Scores { s, rows, page, q, k_dim, keys, weights, ahead });
        } else {
            on_rows::<S>(rows.count, &mut Scores { s, rows, page, q, k_dim, keys, weights, ahead });
        }
    }

    #[inline(always)]
    fn values(&self, s: S, page: usize, pages: &Range<usize>, buffers: &mut Buffers<'_>) {
        let values = self.pages.values(self.head, page);
        let next = match page + 1 {
            next if next < pages.end => self.pages.values(self.head, next),
            next if next * PAGE_KEYS < self.pages.positions() => self.pages.keys(self.head, next),
            _ => &[],
        };
        let (rows, stride) = (&self.rows, self.pages.shape().v_stride() / LANES);
        let ahead = Ahead::new(next, rows, !T::IS_F32 && rows.are_many());
        let (weights, sums) = (&*buffers.weights, &mut *buffers.sums);
        // A page that many rows need is brought to f32 before it is used.
        if const { !T::IS_F32 } && rows.are_many() {
            let seen = within(&rows.span(0..rows.count).0, page);
            let used = seen.start * stride..seen.end * stride;
            widen(s, &values[used.clone()], &mut buffers.panel[used]);
            let values = &*buffers.panel;
            on_rows::<S>(rows.count, &mut Values { s, rows, page, stride, values, weights, sums, ahead });
        } else {
            on_rows::<S>(rows.count, &mut Values { s, rows, page, stride, values, weights, sums, ahead });
        }
    }
}

/// The scores of one page.
struct Scores<'a, S, E> {
    s: S,
    rows: &'a Rows,
    page: usize,
    /// `[rows][k_dim]`
    q: &'a [f32],
    k_dim: usize,
    /// `[position / 16][k_dim]`
    keys: &'a [[E; LANES]],
    weights: &'a mut [Weights],
    ahead: Ahead,
}

impl<S: Simd, E: KvElem> OnRows for Scores<'_, S, E> {
    #[inline(always)]
    fn run<const R: usize, const G: usize>(&mut self, row: usize) {
        let seen = within(&self.rows.span(row..row + R).0, self.page);
        if seen.is_empty() {
            return;
        }
        self.ahead.ask(self.s, self.ahead.share);
        let first = seen.start / LANES;
        for group in (first - first % G..seen.end.div_ceil(LANES)).step_by(G) {
            self.some::<R, G>(row, group);
        }
    }
}

impl<S: Simd, E: KvElem> Scores<'_, S, E> {
    #[inline(always)]
    fn some<const R: usize, const G: usize>(&mut self, row: usize, group: usize) {
        let (s, k_dim) = (self.s, self.k_dim);
        let q: [&[f32]; R] = array::from_fn(|i| &self.q[(row + i) * k_dim..][..k_dim]);
        let keys: [&[[E; LANES]]; G] = array::from_fn(|g| &self.keys[(group + g) * k_dim..][..k_dim]);
        let mut sums = [[s.splat(0.0); G]; R];
        for d in 0..k_dim {
            let mut k = [s.splat(0.0); G];
            for g in 0..G {
                k[g] = E::load(s, &keys[g][d]);
            }
            if self.ahead.share == 0 {
                self.ahead.ask(s, 128);
            }
            for i in 0..R {
                let q = s.splat(q[i][d]);
                for g in 0..G {
                    sums[i][g] = s.fma(q, k[g], sums[i][g]);
                }
            }
        }
        let first = self.page * (PAGE_KEYS / LANES) % GROUPS + group;
        for (sums, weights) in sums.iter().zip(&mut self.weights[row..row + R]) {
            for (&sum, scores) in sums.iter().zip(&mut weights[first..first + G]) {
                s.store(s.mul(sum, s.splat(self.rows.scale)), scores);
            }
        }
    }
}
