//! Products of matrices and activations: a few strips of weight rows at a time.

use std::ops::Range;

use cera_quant::acts::ActsRef;
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::ops::AddArgs;
use cera_quant::pack::{STRIP_ROWS, strip_bytes};

use super::{Pass, SCRATCH, expect};
use crate::graph::MatrixId;
use crate::plan::Product;
use crate::table::Kernels;

/// Strips of a chunk of a product. More lowers the cost of claiming, fewer evens out the workers.
const CHUNK_STRIPS: usize = 4;

impl Pass<'_> {
    /// Chunks of a phase of products.
    pub(super) fn products_chunks(&self, products: &[Product]) -> usize {
        products.iter().map(|p| self.product_chunks(p.weight)).sum()
    }

    /// Runs a chunk of a phase of products.
    pub(super) fn products(&self, mut chunk: usize, products: &[Product], kernels: &Kernels<'_>) {
        for product in products {
            let chunks = self.product_chunks(product.weight);
            if chunk < chunks {
                let strips = self.program.weights[product.weight.0].strips();
                let range = chunk * CHUNK_STRIPS..strips.min((chunk + 1) * CHUNK_STRIPS);
                return self.product(product, range, kernels);
            }
            chunk -= chunks;
        }
    }

    fn product_chunks(&self, weight: MatrixId) -> usize {
        self.program.weights[weight.0].strips().div_ceil(CHUNK_STRIPS)
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
                for s in strips.clone() {
                    let Some(w) = expect(weight.pack_first_strip(s..strips.end, scratch)) else { continue };
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
