//! What the SIMD kernels of all architectures share: algorithms that are written once over the vectors of a tier.
//!
//! A tier gives a token, a value that proves that the machine has its instructions, and implements the traits of this
//! crate for it: [`Vectors`](matrix::vectors::Vectors) and the sums of products for the matrix kernels
//! ([`matrix`]), and the quantizers ([`acts`]). The macros stamp out what it exports. There are no kernels here, and no
//! code of an architecture.

#[macro_use]
mod kernels;

pub mod acts;
pub mod matrix;

/// What a tier does besides arithmetic. A value of an implementing type proves that this machine has its instructions.
pub trait Machine: Copy {
    /// Has the function that is compiled for the tier, and that this and its callers are inlined into, begin its frame
    /// where vectors that do not fit the registers are fast.
    #[inline(always)]
    fn align_frame(self) {}

    /// Fetches the cache line of an address that will be read soon, wherever it points to.
    #[inline(always)]
    fn fetch(self, _at: *const u8) {}
}
