//! The state of a sequence: what a model remembers between steps.

mod layers;

use std::io::{self, Read, Write};
use std::sync::Arc;

use cera_quant::kv::{KvShape, KvType, PAGE_KEYS};

pub(crate) use self::layers::LayerMemory;
use self::layers::{Layer, Pages, Recurrent};
use crate::buffer::AlignedBuf;
use crate::error::Error;

/// What one layer remembers of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerState {
    /// Keys and values.
    Kv {
        /// The heads.
        shape: KvShape,
        /// How many positions a token sees, itself included; `None` for all. Pages that no later token sees are dropped.
        window: Option<usize>,
    },
    /// Elements of a fixed number, which every step replaces. They are zero at first.
    Recurrent {
        /// How many f32.
        len: usize,
    },
}

impl LayerState {
    /// Whether the state at `len` positions can be had again from one at more positions.
    fn keeps_all(&self) -> bool {
        matches!(self, LayerState::Kv { window: None, .. })
    }

    /// The first page that tokens from position `len` on see or write.
    fn first_page(&self, len: usize) -> usize {
        match self {
            LayerState::Kv { window: Some(window), .. } => {
                (len + 1).saturating_sub((*window).max(1)) / PAGE_KEYS
            }
            _ => 0,
        }
    }

    /// Bytes for `positions` positions, in whole pages, between steps.
    pub fn bytes(&self, kv: KvType, positions: usize) -> usize {
        match self {
            LayerState::Kv { shape, .. } => {
                let pages = positions.div_ceil(PAGE_KEYS) - self.first_page(positions);
                pages.saturating_mul(kv.page_bytes(*shape))
            }
            LayerState::Recurrent { .. } if positions == 0 => 0,
            LayerState::Recurrent { len } => len * size_of::<f32>(),
        }
    }
}

/// What a graph remembers of a sequence, one entry per stateful layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateSpec {
    /// The layers, in the order in which the graph declared them.
    pub layers: Vec<LayerState>,
    /// States that can grow to more positions than this have other keys than those that cannot
    /// ([`LongRope`](crate::graph::LongRope)).
    pub long_beyond: Option<usize>,
}

impl StateSpec {
    /// Bytes of state for `positions` positions, in whole pages, between steps.
    pub fn bytes(&self, kv: KvType, positions: usize) -> usize {
        self.layers.iter().map(|layer| layer.bytes(kv, positions)).fold(0, usize::saturating_add)
    }

    /// Whether a state keeps every position, so that it can be truncated to any length.
    pub fn keeps_all(&self) -> bool {
        self.layers.iter().all(LayerState::keeps_all)
    }
}

/// The state of one sequence.
///
/// Keys and values stand in pages of [`PAGE_KEYS`] positions that forks share until one of them writes; so do recurrent
/// layers in buffers.
#[derive(Debug, Clone)]
pub struct SeqState {
    spec: Arc<StateSpec>,
    kv: KvType,
    limit: usize,
    len: usize,
    layers: Vec<Layer>,
}

/// What a state must keep until a step has succeeded, to go back to where it was.
#[derive(Debug)]
pub(crate) struct Held {
    len: usize,
    recurrent: Vec<Option<Arc<AlignedBuf>>>,
}

/// A state as it was at some moment. It shares pages with the state it was taken of.
#[derive(Debug, Clone)]
pub struct Snapshot(SeqState);

impl SeqState {
    /// An empty state that can grow to `limit` positions.
    pub fn new(spec: Arc<StateSpec>, kv: KvType, limit: usize) -> SeqState {
        let layer = |layer: &LayerState| match layer {
            LayerState::Kv { .. } => Layer::Kv(Pages::default()),
            LayerState::Recurrent { .. } => Layer::Recurrent(Recurrent::default()),
        };
        let layers = spec.layers.iter().map(layer).collect();
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

    /// Whether the sequence has the keys of those that can grow long: [`StateSpec::long_beyond`].
    pub fn is_long(&self) -> bool {
        self.spec.long_beyond.is_some_and(|beyond| self.limit > beyond)
    }

    /// Bytes of the pages and of recurrent layers, those shared with forks included.
    pub fn bytes(&self) -> usize {
        self.buffers().map(|buffer| buffer.len()).sum()
    }

    /// All buffers that hold what the sequence remembers, in order.
    fn buffers(&self) -> impl Iterator<Item = &AlignedBuf> {
        self.layers.iter().flat_map(|layer| {
            let (pages, current) = match layer {
                Layer::Kv(pages) => (&pages.held[..], None),
                Layer::Recurrent(recurrent) => (&[][..], recurrent.current.as_deref()),
            };
            pages.iter().map(|page| &**page).chain(current)
        })
    }

    /// A second sequence that continues from here. Pages are shared until written.
    #[must_use]
    pub fn fork(&self) -> SeqState {
        self.clone()
    }

    /// Forgets the positions from `len` on and gives the length really kept, which is 0 where a layer cannot go back:
    /// recurrent layers to no other length, those with a window to none whose window they have dropped.
    #[must_use = "fewer positions may be kept than were asked for"]
    pub fn truncate(&mut self, len: usize) -> usize {
        if len >= self.len {
            return self.len;
        }
        let can = |(layer, spec): (&Layer, &LayerState)| match layer {
            Layer::Kv(pages) => pages.first <= spec.first_page(len),
            Layer::Recurrent(_) => false,
        };
        let kept = if self.layers.iter().zip(&self.spec.layers).all(can) { len } else { 0 };
        if kept == 0 {
            *self = SeqState::new(self.spec.clone(), self.kv, self.limit);
            return 0;
        }
        self.drop_pages_after(kept);
        kept
    }

    /// Forgets the keys and values of the positions from `len` on, none of whose pages were dropped.
    fn drop_pages_after(&mut self, len: usize) {
        self.len = len;
        for layer in &mut self.layers {
            if let Layer::Kv(pages) = layer {
                pages.held.truncate(len.div_ceil(PAGE_KEYS).saturating_sub(pages.first));
            }
        }
    }

    /// The state as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.clone())
    }

    /// Returns to a snapshot.
    ///
    /// # Errors
    /// [`Error::StateMismatch`] if the snapshot is of another kind of state, or its keys are those of long sequences and
    /// these are not.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let same = snapshot.0.spec == self.spec && snapshot.0.kv == self.kv;
        if !same || snapshot.0.is_long() != self.is_long() {
            return Err(Error::StateMismatch);
        }
        let limit = self.limit;
        self.clone_from(&snapshot.0);
        self.limit = limit;
        Ok(())
    }

    /// Writes what is remembered of the positions held, for [`SeqState::read_from`]: for each layer its pages, or its
    /// elements.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.buffers().try_for_each(|buffer| out.write_all(buffer))
    }

    /// Takes `len` positions that [`SeqState::write_to`] wrote for a state of the same kind in place of those held.
    ///
    /// # Errors
    /// [`Error::ContextFull`] if they are too many, [`Error::OutOfMemory`], and [`Error::Read`] if `input` ends early. The
    /// state is as it was then.
    pub fn read_from(&mut self, len: usize, input: &mut dyn Read) -> Result<(), Error> {
        let mut state = SeqState::new(self.spec.clone(), self.kv, self.limit);
        state.check_room(len)?;
        let mut read = |bytes: usize| -> Result<Arc<AlignedBuf>, Error> {
            let mut buffer = AlignedBuf::zeroed(bytes)?;
            input.read_exact(&mut buffer).map_err(|error| Error::Read { reason: error.to_string() })?;
            Ok(Arc::new(buffer))
        };
        for (layer, spec) in state.layers.iter_mut().zip(&self.spec.layers) {
            match (layer, spec) {
                (Layer::Kv(pages), LayerState::Kv { shape, .. }) => {
                    pages.first = spec.first_page(len);
                    for _ in pages.first..len.div_ceil(PAGE_KEYS) {
                        pages.held.push(read(self.kv.page_bytes(*shape))?);
                    }
                }
                (Layer::Recurrent(recurrent), _) if len > 0 => {
                    recurrent.current = Some(read(spec.bytes(self.kv, len))?);
                }
                _ => {}
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
        for layer in &self.spec.layers {
            if let LayerState::Kv { shape: KvShape { k_dim, v_dim, .. }, .. } = *layer
                && !self.kv.fits(KvShape { heads: 1, k_dim, v_dim })
            {
                return Err(Error::KvBlocks { kv: self.kv, k_dim, v_dim });
            }
        }
        if tokens > self.limit.saturating_sub(self.len) {
            return Err(Error::ContextFull { held: self.len, added: tokens, limit: self.limit });
        }
        Ok(())
    }

    /// Makes memory for `tokens` more positions, of which this state is the only owner, and gives its addresses per layer.
    /// Pages before the first new position may be shared and must not be written.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the positions held are as they were.
    pub(crate) fn reserve(&mut self, tokens: usize) -> Result<Vec<LayerMemory>, Error> {
        let (len, kv) = (self.len, self.kv);
        let layers = self.layers.iter_mut().zip(&self.spec.layers);
        layers
            .map(|(layer, spec)| match (layer, spec) {
                (Layer::Kv(pages), LayerState::Kv { shape, .. }) => {
                    pages.reserve(len, tokens, kv.page_bytes(*shape))
                }
                (Layer::Recurrent(recurrent), _) => recurrent.reserve(spec.bytes(kv, len + tokens)),
                (Layer::Kv(_), LayerState::Recurrent { .. }) => unreachable!("a layer is what its spec says"),
            })
            .collect()
    }

    /// Counts `tokens` positions that a pass has written.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.len += tokens;
        for layer in &mut self.layers {
            if let Layer::Recurrent(recurrent) = layer {
                std::mem::swap(&mut recurrent.current, &mut recurrent.next);
            }
        }
    }

    /// What must be kept to go back to here after passes.
    pub(crate) fn hold(&self) -> Held {
        let recurrent = self.layers.iter().filter_map(|layer| match layer {
            Layer::Kv(_) => None,
            Layer::Recurrent(recurrent) => Some(recurrent.current.clone()),
        });
        Held { len: self.len, recurrent: recurrent.collect() }
    }

    /// Goes back to where the state was, no page having been dropped since.
    pub(crate) fn go_back(&mut self, held: Held) {
        self.drop_pages_after(held.len);
        let recurrent = self.layers.iter_mut().filter_map(|layer| match layer {
            Layer::Kv(_) => None,
            Layer::Recurrent(recurrent) => Some(recurrent),
        });
        for (recurrent, current) in recurrent.zip(held.recurrent) {
            recurrent.current = current;
        }
    }

    /// Drops the pages that no later token sees.
    pub(crate) fn drop_unseen(&mut self) {
        for (layer, spec) in self.layers.iter_mut().zip(&self.spec.layers) {
            if let Layer::Kv(pages) = layer {
                let first = spec.first_page(self.len);
                pages.held.drain(..first.saturating_sub(pages.first).min(pages.held.len()));
                pages.first = pages.first.max(first);
            }
        }
    }
}

#[cfg(test)]
mod tests;
