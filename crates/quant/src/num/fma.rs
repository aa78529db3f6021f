//! Fused multiply-add on machines that may lack it.

/// `a * b + c` with one rounding to nearest even, whatever the machine.
///
/// The product of two f32 is exact in f64. The f64 sum is rounded to odd (its last bit records that it is inexact),
/// so that the final rounding to f32 is the only one that counts.
///
/// Numeric contract: the bits of IEEE 754 `fusedMultiplyAdd` for every operand that is not NaN; NaN gives NaN.
///
/// Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
/// odd", IEEE Transactions on Computers 57(4), 2008.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(target_arch = "aarch64") { hardware(a, b, c) } else { emulated(a, b, c) }
}

/// AArch64 has FMA in its baseline, where `mul_add` is one instruction.
#[inline(always)]
#[allow(clippy::disallowed_methods)]
fn hardware(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

#[inline(always)]
fn emulated(a: f32, b: f32, c: f32) -> f32 {
    let p = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let s = p + c;
    // Two-sum: `s + e` is the exact sum. `e` is NaN where `s` is infinite or NaN, and then nothing is to be mended.
    let c_part = s - p;
    let e = (p - (s - c_part)) + (c - c_part);
    let inexact = u64::from(e.abs() > 0.0);
    let opposite = (e.to_bits() ^ s.to_bits()) >> 63;
    // The odd neighbour of `s` on the side of the exact sum, unless `s` is odd itself.
    let bits = (s.to_bits() - (opposite & inexact)) | inexact;
    f64::from_bits(bits) as f32
}
