//! The memory that a tile is worked on in.

use super::join::States;
use super::{CHUNK_KEYS, GROUPS};
use crate::acts::Q8x32;
use crate::kv::{KvShape, PAGE_KEYS};
use crate::num::LANES;

/// Alignment of the buffers, in bytes.
const ALIGN: usize = 64;

/// The weights of one chunk for one row, each at its position modulo the chunk.
pub(super) type Weights = [[f32; LANES]; GROUPS];

/// Memory to compute attention in. It grows to what the largest tile needs and may serve any tile.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    floats: Vec<f32>,
    states: Vec<RowStates>,
    records: Vec<Q8x32>,
}

/// The states of sixteen rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowStates {
    /// Over one chunk.
    pub(super) chunk: States,
    /// Over all chunks so far.
    pub(super) joined: States,
}

/// The buffers of a tile.
#[derive(Debug)]
pub(super) struct Buffers<'a> {
    /// Keys or values of a page in f32.
    pub(super) panel: &'a mut [[f32; LANES]],
    /// Scores, then weights of a chunk.
    pub(super) weights: &'a mut [Weights],
    /// Weighted values of a chunk: `[row][v_stride / 16]`.
    pub(super) sums: &'a mut [[f32; LANES]],
    /// The states of the rows, sixteen at a time.
    pub(super) states: &'a mut [RowStates],
}

impl AttentionScratch {
    /// No memory yet.
    pub const fn new() -> AttentionScratch {
        AttentionScratch { floats: Vec::new(), states: Vec::new(), records: Vec::new() }
    }

    /// Buffers for some rows, without any key in the states, and room for quantized queries.
    pub(super) fn buffers(&mut self, rows: usize, shape: KvShape) -> (Buffers<'_>, &mut Vec<Q8x32>) {
        let panel = PAGE_KEYS * shape.k_dim.max(shape.v_stride());
        let (weights, sums) = (rows * CHUNK_KEYS, rows * shape.v_stride());
        let (len, spare) = (panel + weights + sums, ALIGN / size_of::<f32>());
        if self.floats.len() < len + spare {
            self.floats.resize(len + spare, 0.0);
        }
        self.states.clear();
        self.states.resize(rows.div_ceil(LANES), RowStates { chunk: States::NONE, joined: States::NONE });
        // Alignment is for speed only.
        let start = self.floats.as_ptr().align_offset(ALIGN).min(spare);
        let (all, _) = self.floats[start..start + len].as_chunks_mut::<LANES>();
        let (panel, rest) = all.split_at_mut(panel / LANES);
        let (weights, sums) = rest.split_at_mut(weights / LANES);
        let buffers = Buffers { panel, weights: weights.as_chunks_mut().0, sums, states: &mut self.states };
        (buffers, &mut self.records)
    }
}
