//! Recurrences: the tokens of one sequence and head at a time, or those of a piece of a head.

use std::cell::RefCell;
use std::ops::Range;

use cera_quant::args::OutMat;
use cera_quant::num::LANES;
use cera_quant::ops::DeltaRuleArgs;

use super::Pass;
use crate::graph::{DeltaInfo, ValueId};
use crate::plan::Scan;
use crate::table::Kernels;

/// Chunks per worker below which heads are cut into pieces.
const CHUNKS_PER_WORKER: usize = 4;

thread_local! {
    /// Scratch of a worker.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// How a recurrence is cut: every sequence into heads, and these into pieces.
pub(super) struct ScanCut {
    sequences: usize,
    heads: usize,
    pieces: usize,
}

impl ScanCut {
    /// Cuts `heads` heads of `tiles` tiles each, which are never cut, for so many workers.
    fn new(sequences: usize, (heads, tiles): (usize, usize), workers: usize) -> ScanCut {
        let wanted = if workers > 1 { CHUNKS_PER_WORKER * workers } else { 1 };
        let pieces = wanted.div_ceil((sequences * heads).max(1)).clamp(1, tiles.max(1));
        ScanCut { sequences, heads, pieces }
    }

    /// Chunks for the pool.
    pub(super) fn chunks(&self) -> usize {
        self.sequences * self.heads * self.pieces
    }

    /// The sequence, the head and the tiles of a chunk.
    fn get(&self, chunk: usize, tiles: usize) -> (usize, usize, Range<usize>) {
        let (piece, item) = (chunk % self.pieces, chunk / self.pieces);
        let tiles = tiles * piece / self.pieces..tiles * (piece + 1) / self.pieces;
        (item / self.heads, item % self.heads, tiles)
    }
}

impl Pass<'_> {
    /// How a recurrence is cut in this pass.
    pub(super) fn scan_cut(&self, scan: &Scan) -> ScanCut {
        let items = match scan {
            Scan::DeltaRule { info, .. } => (info.rule.shape.v_heads, info.rule.shape.tiles()),
        };
        ScanCut::new(self.batch.sequences(), items, self.program.runtime.width())
    }

    /// Runs a chunk of a recurrence.
    pub(super) fn scan(&self, chunk: usize, scan: &Scan, out: ValueId, kernels: &Kernels<'_>) {
        match *scan {
            Scan::DeltaRule { qkv, a, b, ref info } => {
                let (sequence, head, tiles) = self.scan_cut(scan).get(chunk, info.rule.shape.tiles());
                if let Some(run) = self.batch.runs().nth(sequence) {
                    self.delta_rule((qkv, a, b, out), info, run, (head, tiles), kernels);
                }
            }
        }
    }

    fn delta_rule(
        &self,
        (qkv, a, b, out): (ValueId, ValueId, ValueId, ValueId),
        info: &DeltaInfo,
        run: Range<usize>,
        (head, tiles): (usize, Range<usize>),
        kernels: &Kernels<'_>,
    ) {
        let (graph, shape) = (self.graph(), info.rule.shape);
        let first = head * shape.tiles();
        let span = (first + tiles.start) * shape.tile_len()..(first + tiles.end) * shape.tile_len();
        // SAFETY: the states are borrowed by the step, and the graph gave the layer so many elements.
        let (before, after) = unsafe { self.batch.recurrent(run.start, info.state, shape.state_len()) };
        // SAFETY: the elements after the step are as many as those before, and those of these tiles belong to one chunk
        // (chunks).
        let after = unsafe { std::slice::from_raw_parts_mut(after.add(span.start), span.len()) };
        // SAFETY: operands are from an earlier phase (barriers).
        let (rows, a, b) =
            unsafe { (self.read(qkv, run.clone()), self.read(a, run.clone()), self.read(b, run.clone())) };
        let column = head * shape.v_dim + tiles.start * LANES;
        let columns = shape.v_dim.min(tiles.end * LANES) - tiles.start * LANES;
        let to =
            self.memory.ptr(self.plan().values[out.0]).wrapping_add(run.start * shape.out_len() + column);
        // SAFETY: the columns of these tiles in the rows of the run belong to one chunk (chunks) and lie inside of the
        // value, whose rows are `out_len` elements.
        let out = unsafe { OutMat::from_raw(to, run.len(), columns, shape.out_len()) };
        SCRATCH.with_borrow_mut(|scratch| {
            kernels.delta_rule(&mut DeltaRuleArgs {
                rule: info.rule,
                head,
                tiles,
                rows,
                a,
                b,
                a_scale: &graph.vectors[info.a_scale.0],
                a_bias: &graph.vectors[info.a_bias.0],
                before: &before[span],
                after,
                out,
                scratch,
            });
        });
    }
}
