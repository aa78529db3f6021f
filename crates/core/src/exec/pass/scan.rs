//! Recurrences: the tokens of one sequence and head at a time, or those of a piece of a head.

use std::cell::RefCell;
use std::ops::Range;

use cera_quant::args::OutMat;
use cera_quant::num::LANES;
use cera_quant::ops::{DeltaRuleArgs, HeadScan, ScanPiece, StateSpaceArgs};

use super::Pass;
use crate::graph::{DeltaInfo, StateId, StateSpaceInfo, ValueId};
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

impl Scan {
    /// The heads of the recurrence, and the tiles of each.
    fn heads(&self) -> (usize, usize) {
        match self {
            Scan::DeltaRule { info, .. } => (info.rule.shape.heads(), info.rule.shape.tiles()),
            Scan::StateSpace { info, .. } => (info.shape.heads(), info.shape.tiles()),
        }
    }
}

/// What a chunk works on.
struct Piece {
    /// The tokens of a sequence.
    run: Range<usize>,
    head: usize,
    tiles: Range<usize>,
}

impl<'a> Pass<'a> {
    /// How a recurrence is cut in this pass.
    pub(super) fn scan_cut(&self, scan: &Scan) -> ScanCut {
        ScanCut::new(self.batch.sequences(), scan.heads(), self.program.runtime.width())
    }

    /// Runs a chunk of a recurrence.
    pub(super) fn scan(&self, chunk: usize, scan: &Scan, out: ValueId, kernels: &Kernels<'_>) {
        let (sequence, head, tiles) = self.scan_cut(scan).get(chunk, scan.heads().1);
        let Some(run) = self.batch.runs().nth(sequence) else { return };
        let piece = Piece { run, head, tiles };
        match *scan {
            Scan::DeltaRule { qkv, a, b, ref info } => {
                self.delta_rule((qkv, a, b, out), info, piece, kernels);
            }
            Scan::StateSpace { x, dt, ref info } => self.state_space((x, dt, out), info, piece, kernels),
        }
    }

    /// A piece with its state before the step, where that after it goes, and where the results go.
    fn piece(
        &self,
        (state, out): (StateId, ValueId),
        shape: &impl HeadScan,
        Piece { run, head, tiles }: Piece,
    ) -> ScanPiece<'a> {
        let (first, tile_len, width) = (head * shape.tiles(), shape.tile_len(), shape.out_len());
        let span = (first + tiles.start) * tile_len..(first + tiles.end) * tile_len;
        // SAFETY: the states are borrowed by the step, and the graph gave the layer so many elements.
        let (before, after) = unsafe { self.batch.recurrent(run.start, state, shape.state_len()) };
        // SAFETY: the elements after the step are as many as those before, and those of these tiles belong to one chunk
        // (chunks).
        let after = unsafe { std::slice::from_raw_parts_mut(after.add(span.start), span.len()) };
        let column = head * shape.dim() + tiles.start * LANES;
        let columns = shape.dim().min(tiles.end * LANES) - tiles.start * LANES;
        let to = self.memory.ptr(self.plan().values[out.0]).wrapping_add(run.start * width + column);
        // SAFETY: the columns of these tiles in the rows of the run belong to one chunk (chunks) and lie inside of the
        // value, whose rows are `width` elements.
        let out = unsafe { OutMat::from_raw(to, run.len(), columns, width) };
        ScanPiece { head, tiles, before: &before[span], after, out }
    }

    fn delta_rule(
        &self,
        (qkv, a, b, out): (ValueId, ValueId, ValueId, ValueId),
        info: &DeltaInfo,
        piece: Piece,
        kernels: &Kernels<'_>,
    ) {
        let (graph, run) = (self.graph(), piece.run.clone());
        let piece = self.piece((info.state, out), &info.rule.shape, piece);
        // SAFETY: operands are from an earlier phase (barriers).
        let (rows, a, b) =
            unsafe { (self.read(qkv, run.clone()), self.read(a, run.clone()), self.read(b, run)) };
        let [a_scale, a_bias] = [info.a_scale, info.a_bias].map(|vector| &graph.vectors[vector.0][..]);
        SCRATCH.with_borrow_mut(|scratch| {
            let rule = info.rule;
            kernels.delta_rule(&mut DeltaRuleArgs { rule, rows, a, b, a_scale, a_bias, piece, scratch });
        });
    }

    fn state_space(
        &self,
        (x, dt, out): (ValueId, ValueId, ValueId),
        info: &StateSpaceInfo,
        piece: Piece,
        kernels: &Kernels<'_>,
    ) {
        let (graph, shape, run) = (self.graph(), info.shape, piece.run.clone());
        let piece = self.piece((info.state, out), &shape, piece);
        // SAFETY: operands are from an earlier phase (barriers).
        let (rows, dt) = unsafe { (self.read(x, run.clone()), self.read(dt, run)) };
        let [dt_bias, a, skip] = [info.dt_bias, info.a, info.skip].map(|vector| &graph.vectors[vector.0][..]);
        kernels.state_space(&mut StateSpaceArgs { shape, rows, dt, dt_bias, a, skip, piece });
    }
}
