//! What a sequence holds of its layers.

use std::sync::Arc;

use cera_quant::kv::PAGE_KEYS;

use crate::buffer::AlignedBuf;
use crate::error::Error;

/// What is held of one layer.
#[derive(Debug, Clone)]
pub(super) enum Layer {
    Kv(Pages),
    Recurrent(Recurrent),
}

/// The pages of a layer from the first that is held.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages {
    pub(super) first: usize,
    pub(super) held: Vec<Arc<AlignedBuf>>,
}

/// The elements of a recurrent layer, and the memory that a step writes those after it to.
#[derive(Debug, Default)]
pub(super) struct Recurrent {
    pub(super) current: Option<Arc<AlignedBuf>>,
    pub(super) next: Option<Arc<AlignedBuf>>,
}

impl Clone for Recurrent {
    fn clone(&self) -> Recurrent {
        Recurrent { current: self.current.clone(), next: None }
    }
}

/// Where a step finds the state of one layer.
#[derive(Debug)]
pub(crate) enum LayerMemory {
    /// The addresses of the pages from the first that is held.
    Kv {
        /// The index of that page.
        first: usize,
        /// The addresses.
        pages: Vec<*mut u8>,
    },
    /// The elements before the step, and memory for those after it.
    Recurrent {
        /// Before.
        current: *const f32,
        /// After; nobody else uses it.
        next: *mut f32,
    },
}

impl Pages {
    /// Makes pages for `tokens` positions from `len` on, of `bytes` each, which nobody else owns.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn reserve(&mut self, len: usize, tokens: usize, bytes: usize) -> Result<LayerMemory, Error> {
        let (written, end) = (len / PAGE_KEYS, (len + tokens).div_ceil(PAGE_KEYS));
        while self.first + self.held.len() < end {
            self.held.push(Arc::new(AlignedBuf::zeroed(bytes)?));
        }
        let from = written.saturating_sub(self.first).min(self.held.len());
        for page in &mut self.held[from..] {
            if Arc::get_mut(page).is_none() {
                *page = Arc::new(page.try_clone()?);
            }
        }
        let pages = self.held.iter().map(|page| page.as_ptr_mut()).collect();
        Ok(LayerMemory::Kv { first: self.first, pages })
    }
}

impl Recurrent {
    /// Makes `bytes` of memory for the elements, and as much for those after a step, which nobody else owns.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<LayerMemory, Error> {
        if self.current.is_none() {
            self.current = Some(Arc::new(AlignedBuf::zeroed(bytes)?));
        }
        if self.next.as_mut().is_none_or(|next| Arc::get_mut(next).is_none()) {
            self.next = Some(Arc::new(AlignedBuf::zeroed(bytes)?));
        }
        let address = |buffer: &Option<Arc<AlignedBuf>>| {
            buffer.as_ref().map_or(std::ptr::null_mut(), |buffer| buffer.as_ptr_mut().cast::<f32>())
        };
        Ok(LayerMemory::Recurrent { current: address(&self.current), next: address(&self.next) })
    }
}
