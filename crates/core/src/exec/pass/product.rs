//! Products of matrices and activations: a few strips of weight rows at a time.

use std::ops::Range;

use cera_quant::acts::ActsRef;
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::ops::AddArgs;
use cera_quant::pack::{STRIP_ROWS, strip_bytes};

use super::{Pass, SCRATCH, expect};
use crate::plan::Product;
use crate::table::Kernels;

/// Strips of a chunk with many tokens. More lowers the cost of claiming, fewer evens out the workers.
const MANY_TOKENS_STRIPS: usize = 4;

/// Bytes of weights of a chunk with few tokens, where reading them takes all the time. More lets a worker read on for
/// longer, fewer evens out workers of different speed.
const FEW_TOKENS_BYTES: usize = 128 << 10;

/// Chunks of each worker with few tokens at most.
const FEW_TOKENS_CHUNKS: usize = 8;

impl Pass<'_> {
    fn strips(&self, product: &Product) -> usize {
        self.program.weights[product.weight.0].strips()
    }

    /// Chunks of a phase of products of `n` tokens. A chunk is some of the strips of all matrices, one after the other.
    pub(super) fn products_chunks(&self, products: &[Product], n: usize) -> usize {
        let strips: usize = products.iter().map(|product| self.strips(product)).sum();
        let workers = self.program.runtime.width();
        let chunks = if n > self.program.runtime.table().column_tile(n) {
            strips.div_ceil(MANY_TOKENS_STRIPS).next_multiple_of(workers)
        } else {
            let weights = products.iter().map(|product| &self.program.weights[product.weight.0]);
            let bytes: usize = weights.map(|w| w.m() * w.row_bytes()).sum();
            workers * (bytes / workers / FEW_TOKENS_BYTES).clamp(1, FEW_TOKENS_CHUNKS)
        };
        chunks.min(strips)
    }

    /// Runs a chunk of `chunks` of a phase of products.
    pub(super) fn products(
        &self,
        (chunk, chunks): (usize, usize),
        products: &[Product],
        kernels: &Kernels<'_>,
    ) {
        let all: usize = products.iter().map(|product| self.strips(product)).sum();
        let [start, end] = [chunk, chunk + 1].map(|chunk| chunk * all / chunks);
        let mut first = 0;
        for product in products {
            let strips = self.strips(product);
            let range = start.clamp(first, first + strips) - first..end.clamp(first, first + strips) - first;
            if !range.is_empty() {
                self.product(product, range, kernels);
            }
            first += strips;
        }
    }

    /// Computes `strips` of a product for every row.
    fn product(&self, product: &Product, strips: Range<usize>, kernels: &Kernels<'_>) {
        let (plan, info) = (self.plan(), self.plan().acts[product.acts.0]);
        let rows = self.graph().value(info.of).rows;
        let (n, k) = (self.count(rows), self.graph().value(info.of).width);
        // SAFETY: activations are from an earlier phase (barriers).
        let bytes = unsafe { self.memory.bytes(plan.acts_places[product.acts.0], 0..n) };
        let x = expect(ActsRef::new(info.format, (n, k), self.tile(rows), bytes));
        let weight = &self.program.weights[product.weight.0];
        let first = self.memory.ptr(plan.values[product.out.0]);
        let view = |row: usize, rows: usize| {
            // SAFETY: the rows of a strip are written by one chunk (chunks) and lie inside of the value, which has
            // `weight.m()` elements per token.
            unsafe { OutMat::from_raw(first.wrapping_add(row), n, rows, weight.m()) }
        };
        if let Some(w) = weight.packed_ref() {
            let out = view(0, weight.m());
            kernels.matmul(&GemmArgs { w, x, strips: strips.clone(), tiles: 0..x.tiles(), out });
        } else {
            SCRATCH.with_borrow_mut(|scratch| {
                let size = expect(strip_bytes(weight.format(), weight.k()));
                scratch.resize(scratch.len().max(size), 0);
                // The worker goes on with the strip after these, unless its part ends here.
                let ahead = weight.strips().min(strips.end + 1);
                for s in strips.clone() {
                    let Some(w) = expect(weight.pack_first_strip(s..ahead, scratch)) else { continue };
                    let out = view(s * STRIP_ROWS, w.m());
                    kernels.matmul(&GemmArgs { w, x, strips: 0..1, tiles: 0..x.tiles(), out });
                }
            });
        }
        if let Some(bias) = product.bias {
            let columns = strips.start * STRIP_ROWS..weight.m().min(strips.end * STRIP_ROWS);
            for token in 0..n {
                let at = first.wrapping_add(token * weight.m() + columns.start);
                // SAFETY: as for `view`.
                let acc = unsafe { std::slice::from_raw_parts_mut(at, columns.len()) };
                kernels.add(&mut AddArgs { acc, x: &self.graph().vectors[bias.0][columns.clone()] });
            }
        }
    }
}
