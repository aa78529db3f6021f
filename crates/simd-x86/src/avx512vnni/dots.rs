//! Nothing but dot products, to measure the machine with.

use std::arch::x86_64::*;
use std::hint::black_box;

use cera_quant::kernels::Dots;

/// Independent sums: more than the latency of the instruction times those that begin per cycle.
const CHAINS: usize = 16;

avx512vnni_tier! {
    fn run(rounds: usize) {
        let (a, b) = (black_box(_mm512_set1_epi8(3)), black_box(_mm512_set1_epi8(5)));
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        black_box(sums);
    }
}

/// `vpdpbusd` on 512 bits.
pub(crate) const DOTS: Dots = Dots { run, macs: CHAINS * 64 };
