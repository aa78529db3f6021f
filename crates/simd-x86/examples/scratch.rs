//! Scratch.
#![allow(clippy::all, clippy::print_stdout, clippy::unwrap_used)]
#[path = "peak/run.rs"]
#[allow(dead_code)]
mod run;
use cera_quant::Format;
use run::*;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    shapes(&a[0]);
}

fn shapes(format: &str) {
    let format = Format::from_label(format).expect("f");
    let tier = &tiers()[0];
    for (m, n, k) in [
        (16, 80, 256),
        (64, 80, 512),
        (64, 80, 1024),
        (64, 80, 2048),
        (64, 480, 2048),
        (256, 480, 2048),
        (2048, 480, 2048),
        (64, 480, 8192),
        (256, 480, 8192),
    ] {
        print!("{m} {n} {k}: ");
        for tile in [2, 4, 6, 8, 9, 10].iter() {
            let r = (200_000_000 / (m * n * k)).clamp(30, 2000);
            let s = time((tier.kernels.gemm)(format).unwrap(), format, (m, n, k), *tile, r);
            let rate = (m * n * k) as f64 / s / 1e9;
            print!("  {tile:2}: {rate:4.0} {:2.0}%", 100.0 * rate / tier.peak);
        }
        println!();
    }
}
