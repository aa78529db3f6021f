//! Scores and values over caches of floats.

use std::array;
use std::ops::Range;

use super::Source;
use super::scratch::Buffers;
use super::tiles::{Ahead, Keys, Rows, Scores, Values, on_rows, widen, within};
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
            let keys = FloatKeys { q, k_dim, keys: &*buffers.panel };
            on_rows::<S>(rows.count, &mut Scores { s, rows, page, keys, weights, ahead });
        } else {
            let keys = FloatKeys { q, k_dim, keys };
            on_rows::<S>(rows.count, &mut Scores { s, rows, page, keys, weights, ahead });
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

/// Queries and the keys of one page.
struct FloatKeys<'a, E> {
    /// `[rows][k_dim]`
    q: &'a [f32],
    k_dim: usize,
    /// `[position / 16][k_dim]`
    keys: &'a [[E; LANES]],
}

impl<S: Simd, E: KvElem> Keys<S> for FloatKeys<'_, E> {
    #[inline(always)]
    fn products<const R: usize, const G: usize>(
        &self,
        s: S,
        (row, group): (usize, usize),
        ahead: &mut Ahead,
    ) -> [[S::F; G]; R] {
        let k_dim = self.k_dim;
        let q: [&[f32]; R] = array::from_fn(|i| &self.q[(row + i) * k_dim..][..k_dim]);
        let keys: [&[[E; LANES]]; G] = array::from_fn(|g| &self.keys[(group + g) * k_dim..][..k_dim]);
        let mut sums = [[s.splat(0.0); G]; R];
        for d in 0..k_dim {
            let mut k = [s.splat(0.0); G];
            for g in 0..G {
                k[g] = E::load(s, &keys[g][d]);
            }
            if ahead.share == 0 {
                ahead.ask(s, 128);
            }
            for i in 0..R {
                let q = s.splat(q[i][d]);
                for g in 0..G {
                    sums[i][g] = s.fma(q, k[g], sums[i][g]);
                }
            }
        }
        sums
    }
}
