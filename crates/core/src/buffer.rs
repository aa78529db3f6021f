//! Aligned memory, on 2 MB pages where it is large.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use memmap2::MmapMut;

use crate::error::Error;

/// Alignment of every buffer, in bytes: a cache line and the widest vector register.
pub const ALIGN: usize = 64;

/// A type of alignment [`ALIGN`].
#[repr(align(64))]
struct Aligned;

const _: () = assert!(align_of::<Aligned>() == ALIGN);

/// Bytes of a large page. Buffers of at least one are mapped at multiples of it.
const LARGE_PAGE: usize = 2 << 20;

/// Zero-initialised bytes at a multiple of [`ALIGN`].
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
    /// How the bytes were allocated, if not mapped.
    layout: Option<Layout>,
    /// The mapping that the bytes lie in, kept to be unmapped.
    _map: Option<MmapMut>,
}

// SAFETY: the buffer owns its memory and has no interior mutability.
unsafe impl Send for AlignedBuf {}
// SAFETY: as for `Send`; shared borrows only read.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `len` bytes of zeros. Pages are taken from the system when they are first written.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the system refuses the bytes, or if they do not fit the address space.
    pub fn zeroed(len: usize) -> Result<AlignedBuf, Error> {
        let large = if len >= LARGE_PAGE { AlignedBuf::mapped(len) } else { None };
        large.or_else(|| AlignedBuf::heap(len)).ok_or(Error::OutOfMemory { bytes: len })
    }

    /// A buffer of its own with the same bytes.
    ///
    /// # Errors
    /// As [`AlignedBuf::zeroed`].
    pub fn try_clone(&self) -> Result<AlignedBuf, Error> {
        let mut copy = AlignedBuf::zeroed(self.len)?;
        copy.copy_from_slice(self);
        Ok(copy)
    }

    /// Memory of the allocator; `None` if it has none.
    fn heap(len: usize) -> Option<AlignedBuf> {
        if len == 0 {
            let ptr = NonNull::<Aligned>::dangling().cast();
            return Some(AlignedBuf { ptr, len, layout: None, _map: None });
        }
        let layout = Layout::from_size_align(len, ALIGN).ok()?;
        // SAFETY: the layout has a nonzero size.
        let ptr = unsafe { alloc_zeroed(layout) };
        Some(AlignedBuf { ptr: NonNull::new(ptr)?, len, layout: Some(layout), _map: None })
    }

    /// Anonymous memory of its own, on large pages if the system gives them; `None` if it gives no mapping.
    fn mapped(len: usize) -> Option<AlignedBuf> {
        let mut map = MmapMut::map_anon(len.checked_add(LARGE_PAGE)?).ok()?;
        let base = map.as_mut_ptr();
        let offset = base.align_offset(LARGE_PAGE);
        advise_large_pages(&map, offset, len);
        // The mapping is a large page longer than `len`, so the aligned range lies inside of it.
        let ptr = NonNull::new(base.wrapping_add(offset))?;
        Some(AlignedBuf { ptr, len, layout: None, _map: Some(map) })
    }

    /// The address of the first byte. Writing through it is for those who know that nobody else uses the bytes.
    pub(crate) fn as_ptr_mut(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(target_os = "linux")]
fn advise_large_pages(map: &MmapMut, offset: usize, len: usize) {
    if let Err(error) = map.advise_range(memmap2::Advice::HugePage, offset, len) {
        tracing::debug!(%error, "the system refused large pages");
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_large_pages(_map: &MmapMut, _offset: usize, _len: usize) {}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `len` initialised bytes (or dangling with `len` 0) and borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated in `heap` with this layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_their_own() {
        for len in [0, 1, 63, 4096, LARGE_PAGE - 1, LARGE_PAGE, LARGE_PAGE + 1, 3 * LARGE_PAGE + 17] {
            let mut buf = AlignedBuf::zeroed(len).unwrap();
            assert_eq!((buf.len(), buf.is_empty()), (len, len == 0));
            assert!(buf.as_ptr().align_offset(ALIGN) == 0, "{len}");
            assert!(buf.iter().all(|&byte| byte == 0), "{len}");
            buf.fill(7);
            let copy = buf.try_clone().unwrap();
            buf.fill(9);
            assert!(copy.iter().all(|&byte| byte == 7), "{len}");
        }
    }

    #[test]
    fn memory_that_the_system_has_not_is_an_error() {
        for bytes in [1 << 60, isize::MAX as usize, usize::MAX] {
            assert_eq!(AlignedBuf::zeroed(bytes).unwrap_err(), Error::OutOfMemory { bytes });
        }
    }
}
