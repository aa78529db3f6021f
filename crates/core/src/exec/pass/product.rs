//! Products of matrices and activations: a few strips of weight rows at a time.

use std::ops::Range;

use cera_quant::acts::ActsRef;
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::ops::AddArgs;
use cera_quant::pack::{STRIP_ROWS, strip_bytes};

use super::slots::{Group, GroupList};
use super::{Pass, SCRATCH, expect};
use crate::plan::{Groups, Product};
use crate::table::Kernels;

/// Strips of a chunk with many tokens. More lowers the cost of claiming, fewer evens out the workers.
const MANY_TOKENS_STRIPS: usize = 4;

/// Chunks of each worker with many tokens in several groups at most: those of a group are less work.
const GROUPS_CHUNKS: usize = 64;

/// Bytes of weights of a chunk with few tokens, where reading them takes all the time. More lets a worker read on for
/// longer, fewer evens out workers of different speed.
const FEW_TOKENS_BYTES: usize = 128 << 10;

/// Chunks of each worker with few tokens at most.
const FEW_TOKENS_CHUNKS: usize = 8;

impl Pass<'_> {
    fn strips(&self, product: &Product) -> usize {
        self.program.weights[product.weight.0].strips()
    }

    /// Strips that a phase computes for each group of rows.
    fn strips_of_group(&self, products: &[Product]) -> usize {
        products.iter().map(|product| self.strips(product)).sum()
    }

    /// The groups of the activations that a phase reads: all its products read the same.
    fn groups_of(&self, products: &[Product]) -> GroupList<'_> {
        match products.first() {
            Some(product) => self.groups(&self.plan().acts[product.acts.0]),
            None => GroupList::Even { count: 0, rows: 0 },
        }
    }

    /// Chunks of a phase of products. A chunk is some of the strips of all matrices for one group of rows after the other.
    pub(super) fn products_chunks(&self, products: &[Product]) -> usize {
        let groups = self.groups_of(products);
        let strips = groups.len() * self.strips_of_group(products);
        let workers = self.program.runtime.width();
        let largest = groups.largest();
        let chunks = if largest > self.program.runtime.table().column_tile(largest) {
            let chunks = strips.div_ceil(MANY_TOKENS_STRIPS).next_multiple_of(workers);
            if groups.len() > 1 { chunks.min(workers * GROUPS_CHUNKS) } else { chunks }
        } else {
            let weights = products.iter().map(|product| &self.program.weights[product.weight.0]);
            let bytes: usize = weights.map(|w| w.m() * w.row_bytes()).sum();
            workers * (groups.len() * bytes / workers / FEW_TOKENS_BYTES).clamp(1, FEW_TOKENS_CHUNKS)
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
        let (groups, of_group) = (self.groups_of(products), self.strips_of_group(products));
        let all = groups.len() * of_group;
        let [start, end] = [chunk, chunk + 1].map(|chunk| chunk * all / chunks);
        for i in start / of_group..end.div_ceil(of_group) {
            let group = groups.get(i);
            let mut first = i * of_group;
            for product in products {
                let strips = self.strips(product);
                let range =
                    start.clamp(first, first + strips) - first..end.clamp(first, first + strips) - first;
                if !range.is_empty() {
                    self.product(product, &group, range, kernels);
                }
                first += strips;
            }
        }
    }

    /// Computes `strips` of a product for the rows of a group.
    fn product(&self, product: &Product, group: &Group, strips: Range<usize>, kernels: &Kernels<'_>) {
        let (plan, info) = (self.plan(), self.plan().acts[product.acts.0]);
        let (n, k) = (group.rows.len(), info.width(self.graph()));
        // SAFETY: activations are from an earlier phase (barriers).
        let bytes = unsafe { self.memory.bytes(plan.acts_places[product.acts.0], group.rows.clone()) };
        let tile = self.program.runtime.table().column_tile(n);
        let x = expect(ActsRef::new(info.format, (n, k), tile, bytes));
        let weight = &self.program.weights[product.weight.0];
        let (member, m) = (group.member, weight.m());
        // Where the results of the group begin, and how far it is from a row to the next.
        let (offset, stride) = match info.groups {
            Groups::Heads(heads) => (member * m, heads * m),
            Groups::One | Groups::Experts(_) => (group.rows.start * m, m),
        };
        let first = self.memory.ptr(plan.values[product.out.0]).wrapping_add(offset);
        let view = |row: usize, rows: usize| {
            // SAFETY: the rows of a strip of a group are written by one chunk (chunks) and lie inside of the value, in which
            // no two groups have the same elements.
            unsafe { OutMat::from_raw(first.wrapping_add(row), n, rows, stride) }
        };
        self.with_packed(product.weight, member, |packed| match packed {
            Some(w) => {
                let out = view(0, m);
                kernels.matmul(&GemmArgs { w, x, strips: strips.clone(), tiles: 0..x.tiles(), out });
            }
            None => SCRATCH.with_borrow_mut(|scratch| {
                let size = expect(strip_bytes(weight.format(), weight.k()));
                scratch.resize(scratch.len().max(size), 0);
                // The worker goes on with the strip after these, unless its part ends here.
                let ahead = weight.strips().min(strips.end + 1);
                for s in strips.clone() {
                    let Some(w) = expect(weight.pack_first_strip(member, s..ahead, scratch)) else {
                        continue;
                    };
                    let out = view(s * STRIP_ROWS, w.m());
                    kernels.matmul(&GemmArgs { w, x, strips: 0..1, tiles: 0..x.tiles(), out });
                }
            }),
        });
        if let Some(bias) = product.bias {
            let columns = strips.start * STRIP_ROWS..m.min(strips.end * STRIP_ROWS);
            let bias = &self.graph().vectors[bias.0][member * m..][columns.clone()];
            for row in 0..n {
                let at = first.wrapping_add(row * stride + columns.start);
                // SAFETY: as for `view`.
                let acc = unsafe { std::slice::from_raw_parts_mut(at, columns.len()) };
                kernels.add(&mut AddArgs { acc, x: bias });
            }
        }
    }
}
