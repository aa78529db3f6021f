//! The tokens of one pass: which sequence and position each has, and where its keys and values are.

use std::ops::Range;

use cera_quant::kv::{KvPages, KvShape, KvType, KvUnit};
use cera_quant::ops::rope_table;

use super::SeqStep;
use crate::error::Error;
use crate::graph::{Graph, RopeInfo, StateId};
use crate::state::LayerMemory;

/// A run of tokens of one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Which of the steps.
    pub(super) step: usize,
    /// Which of its tokens.
    pub(super) tokens: Range<usize>,
}

/// Cuts the tokens of all steps, in order, into passes of at most `chunk` tokens.
pub(super) fn passes(lens: &[usize], chunk: usize) -> Vec<Vec<Run>> {
    let mut passes: Vec<Vec<Run>> = Vec::new();
    let mut room = 0;
    for (step, &len) in lens.iter().enumerate() {
        let mut from = 0;
        while from < len {
            if room == 0 {
                passes.push(Vec::new());
                room = chunk;
            }
            let take = room.min(len - from);
            if let Some(pass) = passes.last_mut() {
                pass.push(Run { step, tokens: from..from + take });
            }
            from += take;
            room -= take;
        }
    }
    passes
}

/// The addresses of the state of one sequence, per layer.
#[derive(Debug)]
struct Addresses(Vec<LayerMemory>);

// SAFETY: addresses only; they are dereferenced by `Batch::pages` and `Batch::recurrent`, which state the conditions.
unsafe impl Send for Addresses {}
// SAFETY: as for `Send`.
unsafe impl Sync for Addresses {}

/// The tokens of one pass.
#[derive(Debug)]
pub(super) struct Batch {
    /// Token ids.
    pub(super) ids: Vec<u32>,
    /// The position of every token.
    pub(super) positions: Vec<usize>,
    /// Rows whose logits are wanted.
    pub(super) outputs: Vec<usize>,
    /// The sequence of every token.
    sequences: Vec<usize>,
    states: Vec<Addresses>,
    kv: Vec<KvType>,
    /// Whether each sequence has the keys of long ones.
    long: Vec<bool>,
    /// Cosines and sines of every rotary embedding: `[token][pair]`.
    tables: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Batch {
    /// Prepares a pass: reserves state for its tokens and computes the rotary tables.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; state may have been reserved then, but no sequence is longer.
    pub(super) fn new(graph: &Graph, runs: &[Run], steps: &mut [SeqStep<'_>]) -> Result<Batch, Error> {
        let mut batch = Batch {
            ids: Vec::new(),
            positions: Vec::new(),
            outputs: Vec::new(),
            sequences: Vec::new(),
            states: Vec::new(),
            kv: Vec::new(),
            long: Vec::new(),
            tables: Vec::new(),
        };
        for run in runs {
            let step = &mut steps[run.step];
            let (count, sequence) = (run.tokens.len(), batch.states.len());
            for (i, token) in run.tokens.clone().enumerate() {
                if step.want.includes(token, step.tokens.len()) {
                    batch.outputs.push(batch.ids.len());
                }
                batch.ids.push(step.tokens[token]);
                batch.positions.push(step.state.len() + i);
                batch.sequences.push(sequence);
            }
            batch.kv.push(step.state.kv_type());
            batch.long.push(step.state.is_long());
            batch.states.push(Addresses(step.state.reserve(count)?));
        }
        batch.tables = graph.ropes.iter().map(|rope| batch.table(rope)).collect();
        Ok(batch)
    }

    fn table(&self, rope: &RopeInfo) -> (Vec<f32>, Vec<f32>) {
        let pairs = rope.inv_freq.len();
        let mut cos = vec![0.0; pairs * self.len()];
        let mut sin = cos.clone();
        if pairs > 0 {
            let rows = cos.chunks_exact_mut(pairs).zip(sin.chunks_exact_mut(pairs));
            for ((&position, &sequence), (cos, sin)) in self.positions.iter().zip(&self.sequences).zip(rows) {
                let inv_freq = match &rope.long {
                    Some(long) if self.long[sequence] => &long.inv_freq,
                    _ => &rope.inv_freq,
                };
                rope_table(position, inv_freq, rope.magnitude, (cos, sin));
            }
        }
        (cos, sin)
    }

    /// Tokens.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Cosines and sines of rotary embedding `rope` for one token.
    pub(super) fn angles(&self, rope: usize, token: usize) -> (&[f32], &[f32]) {
        let (cos, sin) = &self.tables[rope];
        let pairs = cos.len() / self.len();
        (&cos[token * pairs..][..pairs], &sin[token * pairs..][..pairs])
    }

    /// The tokens of each sequence.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut from = 0;
        self.sequences.chunk_by(|a, b| a == b).map(move |run| {
            from += run.len();
            from - run.len()..from
        })
    }

    /// Sequences, each of which has a run of tokens.
    pub(super) fn sequences(&self) -> usize {
        self.states.len()
    }

    /// The KV type of a token's sequence.
    pub(super) fn kv_type(&self, token: usize) -> KvType {
        self.kv[self.sequences[token]]
    }

    /// The pages of a token's sequence in one layer.
    ///
    /// # Safety
    /// - `T` is what the pages of the sequence's KV type consist of;
    /// - the states of the pass are borrowed exclusively for it, and a phase does not read positions that it writes.
    ///
    /// # Panics
    /// If the layer has no pages.
    pub(super) unsafe fn pages<T: KvUnit>(
        &self,
        token: usize,
        state: StateId,
        shape: KvShape,
    ) -> KvPages<'_, T> {
        let LayerMemory::Kv { first, pages } = &self.states[self.sequences[token]].0[state.0] else {
            panic!("the planner took a recurrent layer for one with keys");
        };
        // SAFETY: pointers to different types have one representation; a page is a buffer at a multiple of 64 bytes with
        // the units of a page of the sequence's type, zero-initialised, kept by the state for the whole pass. The caller
        // promises the type and the absence of conflicting use.
        unsafe {
            let pages = std::slice::from_raw_parts(pages.as_ptr().cast::<*mut T>(), pages.len());
            KvPages::from_raw(shape, *first, pages)
        }
    }

    /// The `len` elements of a recurrent layer of a token's sequence before the step, and where those after it go.
    ///
    /// # Safety
    /// - The states of the pass are borrowed exclusively for it, and the layer has `len` elements.
    ///
    /// # Panics
    /// If the layer is not recurrent.
    pub(super) unsafe fn recurrent(&self, token: usize, state: StateId, len: usize) -> (&[f32], *mut f32) {
        let LayerMemory::Recurrent { current, next } = self.states[self.sequences[token]].0[state.0] else {
            panic!("the planner took a layer with keys for a recurrent one");
        };
        // SAFETY: the state keeps the elements, which are initialised, for the whole pass, and nobody writes them: what a
        // pass computes goes to other memory.
        (unsafe { std::slice::from_raw_parts(current, len) }, next)
    }
}
