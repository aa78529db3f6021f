//! Runs a matrix kernel on some strips of 16 weight rows, to count its instructions.
//!
//! `tile TIER FORMAT STRIPS TOKENS K TIMES`, as `cargo xtask insns` starts it under an emulator: what another time adds is
//! the kernel's, all else cancels out. Prints the weight rows and tokens of the kernel's register tile.

#![allow(clippy::print_stdout, reason = "prints its result")]

use std::error::Error;

use cera_quant::Format;
use cera_quant::args::OutMat;
use cera_quant::kernels::TierKernels;
use cera_quant::pack::STRIP_ROWS;
use cera_testkit::gemm::Case;
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};

/// The kernels of a tier, if this build has it.
fn tier(label: &str) -> Option<TierKernels> {
    match label {
        "scalar" => Some(cera_quant::scalar::KERNELS),
        "neon" => cera_simd_neon::NEON,
        "neon-dotprod" => cera_simd_neon::NEON_DOTPROD,
        "neon-i8mm" => cera_simd_neon::NEON_I8MM,
        _ => None,
    }
}

const USAGE: &str = "usage: tile TIER FORMAT STRIPS TOKENS K TIMES";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [label, format, numbers @ ..] = &args[..] else { return Err(USAGE.into()) };
    let numbers: Vec<usize> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [strips, tokens, k, times] = numbers[..] else {
        return Err(USAGE.into());
    };
    let kernels = tier(label).ok_or("this build has no such tier")?;
    let known = |known: &Format| known.to_string() == *format;
    let format = Format::ALL.into_iter().find(known).ok_or("no such format")?;
    let m = strips * STRIP_ROWS;

    let one = usize::from(tokens == 1);
    let kernel = [kernels.gemm, kernels.gemv][one](format).ok_or("the tier has no such kernel")?;
    let (rows, columns) = (kernels.shapes)(format)[one];
    println!("{rows} {columns}");

    let mut rng = Rng::new(1);
    let weights = weights::rows(format, (m, k), Kind::Sane, &mut rng);
    let x: Vec<f32> = (0..tokens * k).map(|_| rng.normal()).collect();
    let case = Case::new(format, (m, tokens, k), kernels.tile.min(tokens), &weights, &x);
    let mut out = vec![0.0_f32; tokens * m];
    // SAFETY: `out` has so many elements, and nobody else uses it before the last use of the view.
    let view = unsafe { OutMat::from_raw(out.as_mut_ptr(), tokens, m, m) };
    let product = case.args(view);
    product.check()?;
    for _ in 0..times {
        // SAFETY: whoever starts this program gives it a CPU with every feature of the tier; on another it ends with an
        // illegal instruction.
        unsafe { kernel(&product) };
    }
    if out.iter().any(|y| !y.is_finite()) {
        return Err("the kernel computed something that is not finite".into());
    }
    Ok(())
}
