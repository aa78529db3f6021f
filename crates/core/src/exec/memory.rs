//! The memory of a step: the slots of a plan, shared by the workers of a phase.

use std::ops::Range;

use crate::buffer::{ALIGN, AlignedBuf};
use crate::error::Error;
use crate::plan::{Place, Plan};

/// Memory for the slots of a plan.
#[derive(Debug)]
pub(super) struct Memory {
    buf: AlignedBuf,
    /// The offset of every slot, in bytes.
    offsets: Vec<usize>,
    capacity: usize,
    /// Parts of attention, before they are joined.
    parts: AlignedBuf,
}

impl Memory {
    /// Memory for passes of up to `capacity` tokens.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn new(plan: &Plan, capacity: usize) -> Result<Memory, Error> {
        let mut end = 0;
        let mut offsets = Vec::with_capacity(plan.slots.len());
        for row in &plan.slots {
            offsets.push(end);
            end += (row * capacity).next_multiple_of(ALIGN);
        }
        Ok(Memory { buf: AlignedBuf::zeroed(end)?, offsets, capacity, parts: AlignedBuf::zeroed(0)? })
    }

    /// Tokens that fit.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory as the workers of one pass share it, with `parts` elements for parts of attention.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn share(&mut self, parts: usize) -> Result<Shared<'_>, Error> {
        let bytes = parts * size_of::<f32>();
        if self.parts.len() < bytes {
            // A sequence grows token by token; its parts do not.
            self.parts = AlignedBuf::zeroed(bytes.next_power_of_two())?;
        }
        Ok(Shared {
            base: self.buf.as_ptr_mut(),
            offsets: &self.offsets,
            capacity: self.capacity,
            parts: (self.parts.as_ptr_mut().cast(), self.parts.len() / size_of::<f32>()),
        })
    }
}

/// The memory of a pass, borrowed exclusively for it and shared by its workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared<'a> {
    base: *mut u8,
    offsets: &'a [usize],
    capacity: usize,
    /// The parts and how many elements they have.
    parts: (*mut f32, usize),
}

// SAFETY: `Shared` only gives addresses inside of the borrowed memory; its accessors are `unsafe` and ask for the absence
// of conflicting use.
unsafe impl Send for Shared<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    fn at(&self, place: Place, rows: &Range<usize>) -> *mut u8 {
        let capacity = self.capacity * place.rows;
        assert!(rows.start <= rows.end && rows.end <= capacity, "rows {rows:?} of {capacity}");
        self.base.wrapping_add(self.offsets[place.slot] + rows.start * place.row)
    }

    /// The address of the first row of a buffer of f32.
    pub(super) fn ptr(&self, place: Place) -> *mut f32 {
        self.at(place, &(0..0)).cast()
    }

    /// Rows of a buffer of f32.
    ///
    /// # Safety
    /// Nobody writes these rows for the lifetime of the slice.
    pub(super) unsafe fn rows(&self, place: Place, rows: Range<usize>) -> &'a [f32] {
        let (ptr, len) = (self.at(place, &rows).cast::<f32>(), rows.len() * place.row / size_of::<f32>());
        // SAFETY: `at` keeps the rows inside of the slot, which is initialised memory at a multiple of `ALIGN` with rows
        // of whole f32; the caller promises that nobody writes them.
        unsafe { std::slice::from_raw_parts(ptr, len) }
    }

    /// Rows of a buffer of f32, to write.
    ///
    /// # Safety
    /// Nobody else reads or writes these rows for the lifetime of the slice.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn rows_mut(&self, place: Place, rows: Range<usize>) -> &'a mut [f32] {
        let (ptr, len) = (self.at(place, &rows).cast::<f32>(), rows.len() * place.row / size_of::<f32>());
        // SAFETY: as in `rows`; the caller promises that nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    fn part(&self, range: &Range<usize>) -> *mut f32 {
        let (base, len) = self.parts;
        assert!(range.start <= range.end && range.end <= len, "parts {range:?} of {len}");
        base.wrapping_add(range.start)
    }

    /// Elements of the parts.
    ///
    /// # Safety
    /// Nobody writes these elements for the lifetime of the slice.
    pub(super) unsafe fn parts(&self, range: Range<usize>) -> &'a [f32] {
        // SAFETY: `part` keeps the range inside of the parts, which are initialised; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.part(&range), range.len()) }
    }

    /// Elements of the parts, to write.
    ///
    /// # Safety
    /// Nobody else reads or writes these elements for the lifetime of the slice.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn parts_mut(&self, range: Range<usize>) -> &'a mut [f32] {
        // SAFETY: as in `parts`.
        unsafe { std::slice::from_raw_parts_mut(self.part(&range), range.len()) }
    }

    /// Bytes of the first `rows` rows of a buffer.
    ///
    /// # Safety
    /// As [`Shared::rows`].
    pub(super) unsafe fn bytes(&self, place: Place, rows: Range<usize>) -> &'a [u8] {
        let (ptr, len) = (self.at(place, &rows), rows.len() * place.row);
        // SAFETY: as in `rows`.
        unsafe { std::slice::from_raw_parts(ptr, len) }
    }

    /// Bytes of rows of a buffer, to write.
    ///
    /// # Safety
    /// As [`Shared::rows_mut`].
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn bytes_mut(&self, place: Place, rows: Range<usize>) -> &'a mut [u8] {
        let (ptr, len) = (self.at(place, &rows), rows.len() * place.row);
        // SAFETY: as in `rows_mut`.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }
}
