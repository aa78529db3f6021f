//! How close the matrix kernels come to the machine's limits, on one core.
//!
//! `cargo run --release -p cera-simd-x86 --example peak -- [TIER ...] [FORMAT ...]`
//!
//! GEMM of 2048 x 2048 weights and 512 tokens: GMAC/s and percent of the peak of the tier's integer dot product, which is
//! measured in turns with it, for several widths of the column tile. GEMV over 192 MB of weights: GB/s. Each number is the best of some
//! runs, since other programs disturb the machine.

#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
#[path = "peak/run.rs"]
mod run;

fn main() {
    #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
    run::run(&std::env::args().skip(1).collect::<Vec<_>>());
}
