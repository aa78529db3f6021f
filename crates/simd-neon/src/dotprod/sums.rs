//! The instruction `sdot`, for tiers that have it.
//!
//! Four words of the activations of a token are in a register, and each is an operand without being broadcast.

use cera_simd::matrix::records::Word;
use cera_simd::matrix::{Wide, by32, by256};

use super::Dotprod;
use crate::asm;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::I;

/// A tier with `sdot`.
///
/// # Safety
/// - The tier has the feature `dotprod`.
pub(crate) unsafe trait HasDot: Copy {
    /// The kernel of a format's unpacked blocks of 32 elements.
    type Wide32<B: by32::Codes32>: Wide<Lanes<Self>, by32::By32<B>>;
    /// The kernel of a format's unpacked blocks of 256 elements.
    type Wide256<B: by256::Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize>: Wide<Lanes<Self>, by256::By256<B, SCALES, MINIMA>>;
}

// SAFETY: the list of the tier has the feature.
unsafe impl HasDot for Dotprod {
    type Wide32<B: by32::Codes32> = by32::By32<by32::Bytes<B>>;
    type Wide256<B: by256::Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> =
        by256::By256<by256::Bytes<B, SCALES, MINIMA>, SCALES, MINIMA>;
}

impl<T: HasDot> Lanes<T> {
    /// `sum` plus the products of the codes of each row with those of word `lane` of `x`.
    #[inline(always)]
    pub(super) fn dot4(self, sum: I, codes: I, x: I, lane: usize) -> I {
        // SAFETY: `self` proves the tier, which has the instruction.
        self.bytes(unsafe { asm::sdot_lane(self.ints(sum), codes, x, lane) })
    }

    /// The codes of 32 elements of a token.
    #[inline(always)]
    pub(super) fn load_words(self, codes: &[Word; 8]) -> [I; 2] {
        let halves: &[[u8; 16]; 2] = bytemuck::cast_ref(codes);
        [self.load16(&halves[0]), self.load16(&halves[1])]
    }
}
