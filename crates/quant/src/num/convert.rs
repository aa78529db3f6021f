//! bf16 conversions with the flush that makes `vdpbf16ps` reproducible.

/// The bits of the smallest bf16 magnitude that is kept: 2^-55.
const BF16_KEEP: u16 = 72 << 7;

/// The value of a bf16.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Zero of the same sign in place of a nonzero bf16 of a magnitude below 2^-55; anything else as it is.
///
/// With both factors at zero or at 2^-55 and above, no product of two bf16 and no sum of such products is subnormal.
#[inline(always)]
pub const fn flush_bf16(bits: u16) -> u16 {
    if bits & 0x7fff < BF16_KEEP { bits & 0x8000 } else { bits }
}

/// Rounds to bf16, to nearest even, without any flush. NaN stays NaN.
#[inline(always)]
pub fn bf16_from_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}
