//! Access to the pages of one sequence in one layer.

use std::marker::PhantomData;

use super::{KvElem, KvShape, KvUnit, PAGE_KEYS};
use crate::num::LANES;

/// The pages of one sequence in one layer.
///
/// Several workers may hold this view and append different positions; positions that are read are no longer written.
/// That is what [`KvPages::from_raw`] and the stores ask for.
#[derive(Debug, Clone, Copy)]
pub struct KvPages<'a, T> {
    shape: KvShape,
    /// The index of the first of the pages.
    first: usize,
    pages: &'a [*mut T],
    _pages: PhantomData<&'a [T]>,
}

impl<'a, T: KvUnit> KvPages<'a, T> {
    /// A view of `pages`, the first of which has this index. Positions before it are not held.
    ///
    /// # Safety
    /// - Each page is valid for reads and writes of the [`KvUnit::head_len`] initialised units of every head for `'a`;
    /// - nobody else writes a position while the holder of this view, or of a copy of it, may read it.
    pub unsafe fn from_raw(shape: KvShape, first: usize, pages: &'a [*mut T]) -> KvPages<'a, T> {
        KvPages { shape, first, pages, _pages: PhantomData }
    }

    /// The heads.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// The end of the positions that the pages hold.
    pub fn positions(&self) -> usize {
        (self.first + self.pages.len()) * PAGE_KEYS
    }

    #[inline(always)]
    pub(super) fn head(&self, head: usize, position: usize) -> *mut T {
        assert!(head < self.shape.heads, "head {head} of {}", self.shape.heads);
        let page = position / PAGE_KEYS;
        assert!(page >= self.first, "page {page} is before the first one, {}", self.first);
        self.pages[page - self.first].wrapping_add(head * T::head_len(self.shape))
    }
}

/// Pages of elements.
impl<'a, T: KvElem> KvPages<'a, T> {
    /// The keys of a page, a lane being a position: `[position / 16][k_dim]`.
    ///
    /// # Panics
    /// If there is no such page or head.
    #[inline(always)]
    pub fn keys(&self, head: usize, page: usize) -> &'a [[T; LANES]] {
        let at = self.head(head, page * PAGE_KEYS).cast::<[T; LANES]>();
        // SAFETY: `head` and the page exist, so the keys of the head lie inside of the page; `from_raw` was promised that
        // it is initialised and that positions being read are not written. Lanes of positions that are being appended
        // belong to no reader: a step appends before it reads.
        unsafe { std::slice::from_raw_parts(at, self.shape.keys_len() / LANES) }
    }

    /// The values of a page in groups of sixteen elements, zero past `v_dim`: `[position][v_stride / 16]`.
    ///
    /// # Panics
    /// If there is no such page or head.
    #[inline(always)]
    pub fn values(&self, head: usize, page: usize) -> &'a [[T; LANES]] {
        let at = self.head(head, page * PAGE_KEYS).wrapping_add(self.shape.keys_len()).cast::<[T; LANES]>();
        // SAFETY: as in `keys`; the values of a head follow its keys.
        unsafe { std::slice::from_raw_parts(at, PAGE_KEYS * self.shape.v_stride() / LANES) }
    }

    /// Writes elements `d..` of the key of one position.
    ///
    /// # Safety
    /// Nobody reads or writes this position at the same time, nor holds a slice of its page from [`KvPages::keys`]; other
    /// positions of the page may be in use.
    ///
    /// # Panics
    /// If something is outside of the pages.
    #[inline(always)]
    pub unsafe fn store_key(&self, head: usize, position: usize, d: usize, values: &[T]) {
        let k_dim = self.shape.k_dim;
        assert!(d <= k_dim && values.len() <= k_dim - d, "key elements past {k_dim}");
        let inside = position % PAGE_KEYS;
        let first =
            self.head(head, position).wrapping_add((inside / LANES * k_dim + d) * LANES + inside % LANES);
        for (i, &value) in values.iter().enumerate() {
            // SAFETY: the assertion and `head` keep the element inside of the page; the caller
            // promises that nobody else uses this position now.
            unsafe { first.wrapping_add(i * LANES).write(value) }
        }
    }

    /// Writes sixteen elements of the value of one position from element `d`.
    ///
    /// # Safety
    /// As [`KvPages::store_key`], with [`KvPages::values`].
    ///
    /// # Panics
    /// If something is outside of the pages.
    #[inline(always)]
    pub unsafe fn store_value(&self, head: usize, position: usize, d: usize, values: &[T; LANES]) {
        let stride = self.shape.v_stride();
        assert!(d < stride && d.is_multiple_of(LANES), "value elements past {stride}");
        let offset = self.shape.keys_len() + position % PAGE_KEYS * stride + d;
        // SAFETY: as in `store_key`; sixteen elements fit since `d` and `stride` are multiples of sixteen.
        unsafe { self.head(head, position).wrapping_add(offset).cast::<[T; LANES]>().write(*values) }
    }
}
