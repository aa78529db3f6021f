//! Scores and values over a cache of type q8_0.

use std::array;
use std::ops::Range;

use super::Source;
use super::scratch::Buffers;
use super::tiles::{Ahead, Keys, Rows, Scores, Values, on_rows, on_rows_of_codes, within};
use crate::acts::Q8x32;
use crate::kv::{KvPages, PAGE_KEYS, Q8_BLOCK, Q8Keys, Q8Unit, Q8Values};
use crate::num::{Dot, LANES};

/// Fours of codes in a block.
const FOURS: usize = Q8_BLOCK / 4;

/// Rows over a cache of type q8_0.
pub(super) struct Codes<'a> {
    pub(super) pages: KvPages<'a, Q8Unit>,
    pub(super) head: usize,
    pub(super) rows: Rows,
    /// `[rows][k_dim / 32]`
    pub(super) q: &'a [Q8x32],
}

impl<S: Dot> Source<S> for Codes<'_> {
    #[inline(always)]
    fn rows(&self) -> &Rows {
        &self.rows
    }

    #[inline(always)]
    fn scores(&self, s: S, page: usize, pages: &Range<usize>, buffers: &mut Buffers<'_>) {
        let (rows, many) = (&self.rows, self.rows.are_many());
        let ahead = match page + 1 {
            next if next < pages.end => Ahead::new(self.pages.q8_bytes(self.head, next)[0], rows, many),
            _ => Ahead::new(self.pages.q8_bytes(self.head, pages.start)[1], rows, many),
        };
        let blocks = self.pages.shape().k_dim / Q8_BLOCK;
        let keys = CodeKeys { q: self.q, blocks, keys: self.pages.q8_keys(self.head, page) };
        let weights = &mut *buffers.weights;
        on_rows_of_codes::<S>(rows.count, &mut Scores { s, rows, page, keys, weights, ahead });
    }

    #[inline(always)]
    fn values(&self, s: S, page: usize, pages: &Range<usize>, buffers: &mut Buffers<'_>) {
        let rows = &self.rows;
        let mut ahead = match page + 1 {
            next if next < pages.end => Ahead::new(self.pages.q8_bytes(self.head, next)[1], rows, false),
            next if next * PAGE_KEYS < self.pages.positions() => {
                Ahead::new(self.pages.q8_bytes(self.head, next)[0], rows, false)
            }
            _ => Ahead::new::<u8>(&[], rows, false),
        };
        let v_dim = self.pages.shape().v_dim;
        let seen = within(&rows.span(0..rows.count).0, page);
        let blocks = seen.start * (v_dim / Q8_BLOCK)..seen.end * (v_dim / Q8_BLOCK);
        multiply(s, &self.pages.q8_values(self.head, page), blocks, &mut ahead, buffers.panel);
        let (weights, sums) = (&*buffers.weights, &mut *buffers.sums);
        let (values, stride) = (&*buffers.panel, v_dim / LANES);
        on_rows::<S>(rows.count, &mut Values { s, rows, page, stride, values, weights, sums, ahead });
    }
}

/// Codes times scales of at least `blocks`, each to its place.
#[inline(always)]
fn multiply<S: Dot>(
    s: S,
    values: &Q8Values<'_>,
    blocks: Range<usize>,
    ahead: &mut Ahead,
    panel: &mut [[f32; LANES]],
) {
    let sixteens = blocks.start / LANES..blocks.end.div_ceil(LANES);
    let scales = &values.scales.as_chunks::<LANES>().0[sixteens.clone()];
    let codes = values.codes.as_chunks::<{ 2 * LANES }>().0[sixteens.clone()].iter();
    let panel = panel.as_chunks_mut::<{ 2 * LANES }>().0[sixteens].iter_mut();
    for (scales, (codes, panel)) in scales.iter().zip(codes.zip(panel)) {
        ahead.ask(s, size_of_val(codes) + size_of_val(scales));
        let scales = s.to_array(s.load_f16(scales));
        for (scale, (codes, panel)) in
            scales.into_iter().zip(codes.as_chunks::<2>().0.iter().zip(panel.as_chunks_mut::<2>().0))
        {
            for (codes, to) in codes.iter().zip(panel) {
                s.store(s.mul(s.load_i8(codes), s.splat(scale)), to);
            }
        }
    }
}

/// Queries and the keys of one page.
struct CodeKeys<'a> {
    /// `[rows][blocks]`
    q: &'a [Q8x32],
    /// Blocks of a key.
    blocks: usize,
    keys: Q8Keys<'a>,
}

impl<S: Dot> Keys<S> for CodeKeys<'_> {
    #[inline(always)]
    fn products<const R: usize, const G: usize>(
        &self,
        s: S,
        (row, group): (usize, usize),
        ahead: &mut Ahead,
    ) -> [[S::F; G]; R] {
        let blocks = self.blocks;
        let q: [&[Q8x32]; R] = array::from_fn(|i| &self.q[(row + i) * blocks..][..blocks]);
        let codes: [&[[[i8; 4]; LANES]]; G] =
            array::from_fn(|g| &self.keys.codes[(group + g) * blocks * FOURS..][..blocks * FOURS]);
        let scales: [&[[u16; LANES]]; G] =
            array::from_fn(|g| &self.keys.scales[(group + g) * blocks..][..blocks]);
        let mut products = [[s.splat(0.0); G]; R];
        for block in 0..blocks {
            let mut sums = [[s.splat_i32(0); G]; R];
            for i in 0..R {
                sums[i] = [s.splat_i32(-S::BIAS * q[i][block].sum); G];
            }
            for four in 0..FOURS {
                let mut k = [s.load_codes(&codes[0][block * FOURS + four]); G];
                for g in 1..G {
                    k[g] = s.load_codes(&codes[g][block * FOURS + four]);
                }
                if ahead.share == 0 {
                    ahead.ask(s, G * (4 + 1) * LANES);
                }
                for i in 0..R {
                    let q = q[i][block].codes.as_chunks().0[four];
                    for g in 0..G {
                        sums[i][g] = s.dot(sums[i][g], k[g], q);
                    }
                }
            }
            for g in 0..G {
                let scale = s.load_f16(&scales[g][block]);
                for i in 0..R {
                    let p = s.mul(scale, s.splat(q[i][block].scale));
                    products[i][g] = s.fma(p, s.to_f32(sums[i][g]), products[i][g]);
                }
            }
        }
        products
    }
}
