//! Where the compiler keeps the vectors that do not fit the registers.

use std::hint::black_box;
use std::mem::MaybeUninit;

/// A line of the caches.
#[repr(align(64))]
struct Line;

/// Has the function that is compiled for a tier, and that this and its callers are inlined into, begin its frame at a whole
/// cache line.
///
/// For vectors that it keeps in the frame alone the compiler asks for no more than the 16 bytes of alignment that every
/// frame has. Whether they lie across lines then depends on the stack of the thread, and where they do, the matrix kernels
/// of AVX2 lose a quarter of their speed.
#[inline(always)]
pub(crate) fn align() {
    black_box(&MaybeUninit::<Line>::uninit());
}
