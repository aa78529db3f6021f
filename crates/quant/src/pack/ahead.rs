//! Fetching memory into the cache before it is needed.
//!
//! Packing reads 16 rows in turn, a few bytes of each. Processors do not recognise that as one stream, so that without
//! this the memory's latency is the speed.

/// Bytes that are fetched at a time, at least: a line of the cache on every machine that there are kernels for.
const LINE: usize = 64;

/// Fetches the `piece`-th `size` bytes of `bytes`, as far as there are any.
#[inline(always)]
pub(super) fn fetch_piece(bytes: &[u8], piece: usize, size: usize) {
    let end = bytes.len();
    bytes[end.min(piece * size)..end.min((piece + 1) * size)].chunks(LINE).for_each(fetch);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch(line: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of x86-64, and a prefetch reads nothing that the program could see.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn fetch(line: &[u8]) {
    // SAFETY: a prefetch reads nothing that the program could see and changes no register.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) line.as_ptr(), options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn fetch(_: &[u8]) {}
