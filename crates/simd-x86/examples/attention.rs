//! How fast attention is, on one core.
//!
//! `cargo run --release -p cera-simd-x86 --example attention`
//!
//! Tiles of a prompt and single tokens over a cache of 8192 positions: GMAC/s and percent of the peak of f32 FMA. Each
//! number is the best of some runs, since other programs disturb the machine.

#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
#[path = "attention/run.rs"]
mod run;

fn main() {
    #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
    run::run();
}
