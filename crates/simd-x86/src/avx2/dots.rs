//! Nothing but dot products, to measure the machine with.

use std::arch::asm;

use cera_quant::kernels::Dots;

avx2_tier! {
    /// Pairs of products and their additions, eight of each, written out so that none is hoisted.
    fn run(rounds: usize) {
        for _ in 0..rounds {
            // SAFETY: the instructions are of AVX2 and use registers only, which are declared.
            unsafe {
                asm!(
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm0, ymm0, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm1, ymm1, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm2, ymm2, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm3, ymm3, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm4, ymm4, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm5, ymm5, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm6, ymm6, ymm8",
                    "vpmaddubsw ymm8, ymm9, ymm10\n vpaddw ymm7, ymm7, ymm8",
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _,
                    out("ymm5") _, out("ymm6") _, out("ymm7") _, out("ymm8") _,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }
    }
}

/// `vpmaddubsw` and the addition of its 16-bit sums.
pub(crate) const DOTS: Dots = Dots { run, macs: 8 * 32 };
