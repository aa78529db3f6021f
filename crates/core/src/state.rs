//! The state of a sequence: what a model remembers between steps.

use std::io::{self, Read, Write};
use std::sync::Arc;

use cera_quant::kv::{KvShape, KvType, PAGE_KEYS};

use crate::buffer::AlignedBuf;
use crate::error::Error;

/// What one layer remembers of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerState {
    /// Keys and values of every position.
    Kv(KvShape),
}

/// What a graph remembers of a sequence, one entry per stateful layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateSpec {
    /// The layers, in the order in which the graph declared them.
    pub layers: Vec<LayerState>,
}

impl StateSpec {
    /// Bytes of state for `positions` positions, in whole pages.
    pub fn bytes(&self, kv: KvType, positions: usize) -> usize {
        let pages = positions.div_ceil(PAGE_KEYS);
        let page = |LayerState::Kv(shape): &LayerState| kv.page_bytes(*shape);
        pages.saturating_mul(self.layers.iter().map(page).sum())
    }
}

/// The state of one sequence.
///
/// Keys and values stand in pages of [`PAGE_KEYS`] positions that forks share until one of them writes.
#[derive(Debug, Clone)]
pub struct SeqState {
    spec: Arc<StateSpec>,
    kv: KvType,
    limit: usize,
    len: usize,
    layers: Vec<Vec<Arc<AlignedBuf>>>,
}

/// A state as it was at some moment. It shares pages with the state it was taken of.
#[derive(Debug, Clone)]
pub struct Snapshot(SeqState);

impl SeqState {
    /// An empty state that can grow to `limit` positions.
    pub fn new(spec: Arc<StateSpec>, kv: KvType, limit: usize) -> SeqState {
        let layers = vec![Vec::new(); spec.layers.len()];
        SeqState { spec, kv, limit, len: 0, layers }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no position is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most positions the state can hold.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The element type of keys and values.
    pub fn kv_type(&self) -> KvType {
        self.kv
    }

    /// What the state holds per layer.
    pub fn spec(&self) -> &Arc<StateSpec> {
        &self.spec
    }

    /// Bytes of the pages, those shared with forks included.
    pub fn bytes(&self) -> usize {
        self.layers.iter().flatten().map(|page| page.len()).sum()
    }

    /// A second sequence that continues from here. Pages are shared until written.
    #[must_use]
    pub fn fork(&self) -> SeqState {
        self.clone()
    }

    /// Forgets the positions from `len` on and gives the length really kept, which may be lower where a layer cannot
    /// roll back that far.
    #[must_use = "fewer positions may be kept than were asked for"]
    pub fn truncate(&mut self, len: usize) -> usize {
        self.len = self.len.min(len);
        let pages = self.len.div_ceil(PAGE_KEYS);
        for layer in &mut self.layers {
            layer.truncate(pages);
        }
        self.len
    }

    /// The state as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.clone())
    }

    /// Returns to a snapshot.
    ///
    /// # Errors
    /// [`Error::StateMismatch`] if the snapshot is of another kind of state.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        if snapshot.0.spec != self.spec || snapshot.0.kv != self.kv {
            return Err(Error::StateMismatch);
        }
        let limit = self.limit;
        self.clone_from(&snapshot.0);
        self.limit = limit;
        Ok(())
    }

    /// Writes keys and values of the positions held, in whole pages, for [`SeqState::read_from`].
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.layers.iter().flatten().try_for_each(|page| out.write_all(page))
    }

    /// Takes `len` positions that [`SeqState::write_to`] wrote for a state of the same kind in place of those held.
    ///
    /// # Errors
    /// [`Error::ContextFull`] if they are too many, [`Error::OutOfMemory`], and [`Error::Read`] if `input` ends early. The
    /// state is as it was then.
    pub fn read_from(&mut self, len: usize, input: &mut dyn Read) -> Result<(), Error> {
        let mut state = SeqState::new(self.spec.clone(), self.kv, self.limit);
        state.check_room(len)?;
        for (layer, LayerState::Kv(shape)) in state.layers.iter_mut().zip(&self.spec.layers) {
            for _ in 0..len.div_ceil(PAGE_KEYS) {
                let mut page = AlignedBuf::zeroed(self.kv.page_bytes(*shape))?;
                input.read_exact(&mut page).map_err(|error| Error::Read { reason: error.to_string() })?;
                layer.push(Arc::new(page));
            }
        }
        state.len = len;
        *self = state;
        Ok(())
    }

    /// Whether `tokens` more positions fit.
    ///
    /// # Errors
    /// [`Error::ContextFull`] with the counts; [`Error::KvBlocks`] if the state cannot hold any.
    pub(crate) fn check_room(&self, tokens: usize) -> Result<(), Error> {
        let unfit = |LayerState::Kv(shape): &&LayerState| !self.kv.fits(*shape);
        if let Some(LayerState::Kv(shape)) = self.spec.layers.iter().find(unfit) {
            return Err(Error::KvBlocks { kv: self.kv, k_dim: shape.k_dim, v_dim: shape.v_dim });
        }
        if tokens > self.limit.saturating_sub(self.len) {
            return Err(Error::ContextFull { held: self.len, added: tokens, limit: self.limit });
        }
        Ok(())
    }

    /// Makes pages for `tokens` more positions, of which this state is the only owner, and gives the address of every
    /// page per layer. Pages before the first new position may be shared and must not be written.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the positions held are as they were.
    pub(crate) fn reserve(&mut self, tokens: usize) -> Result<Vec<Vec<*mut u8>>, Error> {
        let (first, pages) = (self.len / PAGE_KEYS, (self.len + tokens).div_ceil(PAGE_KEYS));
        let kv = self.kv;
        let layers = self.layers.iter_mut().zip(&self.spec.layers);
        layers
            .map(|(layer, LayerState::Kv(shape))| {
                while layer.len() < pages {
                    layer.push(Arc::new(AlignedBuf::zeroed(kv.page_bytes(*shape))?));
                }
                for page in &mut layer[first.min(pages)..] {
                    if Arc::get_mut(page).is_none() {
                        *page = Arc::new(page.try_clone()?);
                    }
                }
                Ok(layer.iter().map(|page| page.as_ptr_mut()).collect())
            })
            .collect()
    }

    /// Counts `tokens` positions that a step has written.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.len += tokens;
    }
}

#[cfg(test)]
mod tests;
