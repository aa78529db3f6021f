//! Access to the pages of one sequence in one layer.

use std::marker::PhantomData;

use super::{KvShape, PAGE_KEYS};
use crate::num::LANES;

/// The pages of one sequence in one layer.
///
/// Several workers may hold this view and append different positions; positions that are read are no longer written.
/// That is what [`KvPages::from_raw`] and the stores ask for.
#[derive(Debug, Clone, Copy)]
pub struct KvPages<'a, T> {
    shape: KvShape,
    pages: &'a [*mut T],
    _pages: PhantomData<&'a [T]>,
}

impl<'a, T: Copy> KvPages<'a, T> {
    /// A view of `pages`.
    ///
    /// # Safety
    /// - Each page is valid for reads and writes of `shape.page_len()` initialised elements for `'a`;
    /// - nobody else writes a position while the holder of this view, or of a copy of it, may read it.
    pub unsafe fn from_raw(shape: KvShape, pages: &'a [*mut T]) -> KvPages<'a, T> {
        KvPages { shape, pages, _pages: PhantomData }
    }

    /// The heads.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// Positions that the pages hold.
    pub fn positions(&self) -> usize {
        self.pages.len() * PAGE_KEYS
    }

    #[inline(always)]
    fn head(&self, head: usize, position: usize) -> *mut T {
        assert!(head < self.shape.heads, "head {head} of {}", self.shape.heads);
        self.pages[position / PAGE_KEYS].wrapping_add(head * self.shape.head_len())
    }

    /// The keys of positions `position..position + 16` at element `d`, a lane being a position.
    ///
    /// # Panics
    /// If `position` is not a multiple of 16 or something is outside of the pages.
    #[inline(always)]
    pub fn keys(&self, head: usize, position: usize) -> &'a [[T; LANES]] {
        assert!(position.is_multiple_of(LANES), "keys are read sixteen at a time");
        let offset = position % PAGE_KEYS * self.shape.k_dim;
        let at = self.head(head, position).wrapping_add(offset).cast::<[T; LANES]>();
        // SAFETY: `head` and the page exist, so the `k_dim` groups of sixteen lie inside of the page; `from_raw` was
        // promised that it is initialised and that positions being read are not written. Lanes of positions that are
        // being appended belong to no reader: a step appends before it reads.
        unsafe { std::slice::from_raw_parts(at, self.shape.k_dim) }
    }

    /// The value of `position` in groups of sixteen elements, zero past `v_dim`.
    ///
    /// # Panics
    /// If the position is outside of the pages.
    #[inline(always)]
    pub fn value(&self, head: usize, position: usize) -> &'a [[T; LANES]] {
        let stride = self.shape.v_stride();
        let offset = self.shape.keys_len() + position % PAGE_KEYS * stride;
        let at = self.head(head, position).wrapping_add(offset).cast::<[T; LANES]>();
        // SAFETY: as in `keys`; a value is `v_stride` elements, a multiple of sixteen.
        unsafe { std::slice::from_raw_parts(at, stride / LANES) }
    }

    /// Writes elements `d..` of the key of one position.
    ///
    /// # Safety
    /// Nobody reads or writes this position at the same time, nor holds a slice of it from [`KvPages::keys`]; other
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
    /// As [`KvPages::store_key`], with [`KvPages::value`].
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
