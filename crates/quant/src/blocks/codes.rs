//! Code tables and sub-block scales.

/// The weights of the 16 codes of `IQ4_NL` and `IQ4_XS`, in units of the scale.
pub const IQ4_NL_VALUES: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the weights of the 16 codes of `MXFP4` (E2M1), in units of the scale: whole numbers, to be multiplied by
/// half of the scale ([`e8m0_half`]).
pub const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half of the E8M0 scale: `2^(e - 128)`, exactly.
///
/// For `e` of 0 and 1 the result is a subnormal, 2^-128 and 2^-127. The byte 255, NaN in the OCP specification, is
/// 2^127 here as in the definition of the GGUF type.
///
/// Source: "OCP Microscaling Formats (MX) Specification", version 1.0, section 5.4.1; ggml-org/ggml,
/// `ggml_e8m0_to_fp32_half`.
#[inline]
pub const fn e8m0_half(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e as u32 - 1) << 23 })
}

/// The 6-bit scales and minima of 32 elements each in `Q4_K` and `Q5_K`: `(scales, minima)`, each in 0..=63.
///
/// The low four numbers of both lie in the low six bits of bytes 0..4 (scales) and 4..8 (minima). The high four have
/// their low four bits in the halves of bytes 8..12 and their high two in the bits left over in bytes 0..8.
#[inline]
pub const fn k_scales(bytes: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    let mut i = 0;
    while i < 4 {
        let (s, m, low) = (bytes[i], bytes[4 + i], bytes[8 + i]);
        scales[i] = s & 63;
        minima[i] = m & 63;
        scales[4 + i] = (low & 15) | (s >> 6) << 4;
        minima[4 + i] = (low >> 4) | (m >> 6) << 4;
        i += 1;
    }
    (scales, minima)
}

/// The 6-bit scales of 16 elements each in `Q3_K`, in -32..=31.
///
/// Scale `j` has its low four bits in half `j / 8` of byte `j % 8`, and its high two in bits `2 * (j / 4)` and up of
/// byte `8 + j % 4`; 32 is subtracted.
#[inline]
pub const fn q3_k_scales(bytes: &[u8; 12]) -> [i8; 16] {
    let mut scales = [0; 16];
    let mut j = 0;
    while j < 16 {
        let low = (bytes[j % 8] >> (4 * (j / 8))) & 15;
        let high = (bytes[8 + j % 4] >> (2 * (j / 4))) & 3;
        scales[j] = (low | high << 4) as i8 - 32;
        j += 1;
    }
    scales
}

/// The 6-bit scales of 32 elements each in `IQ4_XS`, in -32..=31, of the fields of a block.
///
/// Scale `j` has its low four bits in half `j % 2` of byte `j / 2` of `scales_l`, and its high two in bits `2 * j` and
/// up of `scales_h`; 32 is subtracted.
#[inline]
pub const fn iq4_xs_scales(scales_h: u16, scales_l: &[u8; 4]) -> [i8; 8] {
    let mut scales = [0; 8];
    let mut j = 0;
    while j < 8 {
        let low = (scales_l[j / 2] >> (4 * (j % 2))) & 15;
        let high = (scales_h >> (2 * j)) as u8 & 3;
        scales[j] = (low | high << 4) as i8 - 32;
        j += 1;
    }
    scales
}
