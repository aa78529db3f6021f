//! Checkpoints: states of a sequence at lengths that it had, for models whose state cannot go back by itself.
//!
//! A checkpoint shares memory with the state until the state goes on, so that taking one costs next to nothing and keeping it
//! costs what the state overwrites since: the buffers of recurrent layers, the window of windowed ones, a page of the others.

use std::num::NonZero;
use std::sync::Arc;

use cera_core::{Error, LayerState, SeqState, Snapshot, StateSpec};
use cera_quant::kv::KvType;

/// Which states of a sequence are kept to go back to. None of it changes a bit of the logits.
///
/// They are taken only of models whose state cannot go back by itself: at the end of each prompt and of each answer, and on
/// the way through long ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Tokens from one to the next at most, when they are taken: what an edit may cost besides what it changes. Default 512.
    pub every: NonZero<usize>,
    /// The most that are kept; 0 takes none. Default 32. Where there are more, old ones are thinned out: first those within
    /// a turn; those at ends of turns only if they are more than half. The newest always stays.
    pub count: usize,
    /// The most bytes that they take, besides what they share with the state, unless the newest alone takes more. Default
    /// 512 MiB.
    pub bytes: usize,
}

impl Default for CheckpointOptions {
    fn default() -> CheckpointOptions {
        CheckpointOptions { every: NonZero::<usize>::MIN.saturating_add(511), count: 32, bytes: 512 << 20 }
    }
}

/// Whether a state of this kind keeps every position, so that it can go back to any length.
pub(super) fn can_roll_back(spec: &StateSpec) -> bool {
    spec.keeps_all()
}

/// Bytes that a state of `len` positions does not share with one that goes on from it.
fn own_bytes(spec: &StateSpec, kv: KvType, len: usize) -> usize {
    let layer = |layer: &LayerState| match layer {
        LayerState::Kv { shape, window: None } => kv.page_bytes(*shape) * usize::from(len > 0),
        layer => layer.bytes(kv, len),
    };
    spec.layers.iter().map(layer).sum()
}

/// A state at an earlier length.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    /// Positions that the state holds.
    pub(super) len: usize,
    /// Whether a prompt or an answer ends here.
    pub(super) turn: bool,
    /// The logits of the last position, where they were computed.
    pub(super) logits: Option<Arc<Vec<f32>>>,
    snapshot: Snapshot,
    bytes: usize,
}

impl Checkpoint {
    /// The state as it is now.
    pub(super) fn new(state: &SeqState, turn: bool, logits: Option<Arc<Vec<f32>>>) -> Checkpoint {
        let bytes = own_bytes(state.spec(), state.kv_type(), state.len())
            + logits.as_ref().map_or(0, |logits| size_of_val(logits.as_slice()));
        Checkpoint { len: state.len(), turn, logits, snapshot: state.snapshot(), bytes }
    }

    /// Puts a state back to where it was.
    ///
    /// # Errors
    /// [`Error::StateMismatch`] if it is another kind of state.
    pub(super) fn restore(&self, state: &mut SeqState) -> Result<(), Error> {
        state.restore(&self.snapshot)
    }
}

/// The checkpoints of one sequence, in increasing length.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    kept: Vec<Checkpoint>,
}

impl Checkpoints {
    /// The length of the longest, or 0.
    pub(super) fn last_len(&self) -> usize {
        self.kept.last().map_or(0, |last| last.len)
    }

    /// Keeps a checkpoint, and thins out. One of the same length gives way, but stays the end of a turn.
    ///
    /// Checkpoints that are longer are dropped.
    pub(super) fn add(&mut self, mut new: Checkpoint, options: &CheckpointOptions) {
        self.forget_after(new.len);
        if let Some(same) = self.kept.pop_if(|last| last.len == new.len) {
            new.turn |= same.turn;
            new.logits = new.logits.or(same.logits);
        }
        self.kept.push(new);
        while self.kept.len() > options.count || (self.kept.len() > 1 && self.bytes() > options.bytes) {
            self.kept.remove(self.dispensable(options));
        }
    }

    /// The longest that holds at most `common` tokens and from which the logits of a sequence of `len` tokens can be had.
    pub(super) fn find(&self, common: usize, len: usize) -> Option<&Checkpoint> {
        let fits = |c: &&Checkpoint| c.len <= common && (c.len < len || (c.len == len && c.logits.is_some()));
        self.kept.iter().rfind(fits)
    }

    /// The longest end of a turn that holds fewer than `len` tokens; if there is none, the longest of all that do.
    pub(super) fn turn_before(&self, len: usize) -> Option<&Checkpoint> {
        let shorter = || self.kept.iter().rev().filter(|c| c.len < len);
        shorter().find(|c| c.turn).or_else(|| shorter().next())
    }

    /// Drops those of more than `len` tokens.
    pub(super) fn forget_after(&mut self, len: usize) {
        while self.kept.pop_if(|last| last.len > len).is_some() {}
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|c| c.bytes).sum()
    }

    /// The one to drop: of those that are rather to be dropped, the one that leaves the smallest gap for its age. The newest
    /// only if it is the only one.
    fn dispensable(&self, options: &CheckpointOptions) -> usize {
        let newest = self.kept.len() - 1;
        let older = 0..newest;
        let turns = older.clone().filter(|&i| self.kept[i].turn).count();
        let drop_turns = turns == newest || turns > options.count / 2;
        let end = self.kept[newest].len;
        let cost = |i: usize| {
            let before = if i == 0 { 0 } else { self.kept[i - 1].len };
            (self.kept[i + 1].len - before) as f64 / (end - before) as f64
        };
        let of_kind = older.filter(|&i| self.kept[i].turn == drop_turns);
        of_kind.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(newest)
    }
}

#[cfg(test)]
mod tests;
