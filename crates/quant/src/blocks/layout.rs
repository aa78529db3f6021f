//! The block structs. Every one has alignment 1, so that any byte slice of whole blocks can be read as blocks.
//!
//! In the formulas `e` is an element of the block, and `nibble(b, h)` is `(b >> 4 * h) & 15`.

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};

use crate::{Format, QuantError};

/// Half precision as its two bytes in little-endian order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16Le(pub [u8; 2]);

impl F16Le {
    /// The nearest half, ties to even. Exact for every value that is a half.
    #[inline]
    pub fn from_f32(value: f32) -> F16Le {
        F16Le(half::f16::from_f32_const(value).to_le_bytes())
    }

    /// The bits.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// The value, exactly.
    #[inline]
    pub fn to_f32(self) -> f32 {
        half::f16::from_bits(self.to_bits()).to_f32_const()
    }
}

/// A block of a file, or an element of a format without blocks.
pub trait Block: AnyBitPattern + NoUninit {
    /// The format that this is a block of.
    const FORMAT: Format;
}

/// Reads bytes as the blocks they are.
///
/// # Errors
/// [`QuantError::ShapeMismatch`] if `bytes` is not a whole number of blocks.
pub fn cast_blocks<B: Block>(bytes: &[u8]) -> Result<&[B], QuantError> {
    let whole = bytes.len() - bytes.len() % size_of::<B>();
    bytemuck::try_cast_slice(bytes).map_err(|_| QuantError::ShapeMismatch {
        what: "bytes of whole blocks",
        expected: whole,
        got: bytes.len(),
    })
}

/// Writable bytes as the blocks they are.
///
/// # Errors
/// As [`cast_blocks`].
pub fn cast_blocks_mut<B: Block>(bytes: &mut [u8]) -> Result<&mut [B], QuantError> {
    let got = bytes.len();
    let expected = got - got % size_of::<B>();
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| QuantError::ShapeMismatch {
        what: "bytes of whole blocks",
        expected,
        got,
    })
}

macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident: $format:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        const _: () = assert!(size_of::<$name>() == Format::$format.block_bytes() && align_of::<$name>() == 1);

        impl Block for $name {
            const FORMAT: Format = Format::$format;
        }
    )*};
}

blocks! {
    /// `w[e] = d * (nibble(qs[e % 16], e / 16) - 8)`.
    BlockQ4_0: Q4_0 {
        /// The scale.
        d: F16Le,
        /// Codes.
        qs: [u8; 16],
    }

    /// `w[e] = d * nibble(qs[e % 16], e / 16) + m`.
    BlockQ4_1: Q4_1 {
        /// The scale.
        d: F16Le,
        /// The minimum.
        m: F16Le,
        /// Codes.
        qs: [u8; 16],
    }

    /// `w[e] = d * (nibble(qs[e % 16], e / 16) + 16 * bit - 16)`, `bit` being bit `e % 8` of `qh[e / 8]`.
    BlockQ5_0: Q5_0 {
        /// The scale.
        d: F16Le,
        /// Fifth bits.
        qh: [u8; 4],
        /// The low four bits of the codes.
        qs: [u8; 16],
    }

    /// `w[e] = d * (nibble(qs[e % 16], e / 16) + 16 * bit) + m`, `bit` being bit `e % 8` of `qh[e / 8]`.
    BlockQ5_1: Q5_1 {
        /// The scale.
        d: F16Le,
        /// The minimum.
        m: F16Le,
        /// Fifth bits.
        qh: [u8; 4],
        /// The low four bits of the codes.
        qs: [u8; 16],
    }

    /// `w[e] = d * qs[e]`.
    BlockQ8_0: Q8_0 {
        /// The scale.
        d: F16Le,
        /// Codes.
        qs: [i8; 32],
    }

    /// `w[e] = d * sc * q - dmin * m` with `sc` the low and `m` the high half of `scales[e / 16]`, and `q` the bits
    /// `2j..2j + 2` of `qs[32 * (e / 128) + e % 32]`, `j = e / 32 % 4`.
    BlockQ2K: Q2_K {
        /// 4-bit scales and minima of 16 elements each.
        scales: [u8; 16],
        /// Codes.
        qs: [u8; 64],
        /// The scale of the scales.
        d: F16Le,
        /// The scale of the minima.
        dmin: F16Le,
    }

    /// `w[e] = d * sc[e / 16] * (low + 4 * high - 4)` with `low` the bits `2j..2j + 2` of
    /// `qs[32 * (e / 128) + e % 32]`, `j = e / 32 % 4`, and `high` bit `e / 32` of `hmask[e % 32]`;
    /// `sc` as [`q3_k_scales`](super::q3_k_scales) gives it.
    BlockQ3K: Q3_K {
        /// Third bits.
        hmask: [u8; 32],
        /// The low two bits of the codes.
        qs: [u8; 64],
        /// 6-bit scales of 16 elements each.
        scales: [u8; 12],
        /// The scale of the scales.
        d: F16Le,
    }

    /// `w[e] = d * sc[e / 32] * q - dmin * m[e / 32]` with `q = nibble(qs[32 * (e / 64) + e % 32], e / 32 % 2)`;
    /// `sc` and `m` as [`k_scales`](super::k_scales) gives them.
    BlockQ4K: Q4_K {
        /// The scale of the scales.
        d: F16Le,
        /// The scale of the minima.
        dmin: F16Le,
        /// 6-bit scales and minima of 32 elements each.
        scales: [u8; 12],
        /// Codes.
        qs: [u8; 128],
    }

    /// As [`BlockQ4K`] with 16 times bit `e / 32` of `qh[e % 32]` added to the code.
    BlockQ5K: Q5_K {
        /// The scale of the scales.
        d: F16Le,
        /// The scale of the minima.
        dmin: F16Le,
        /// 6-bit scales and minima of 32 elements each.
        scales: [u8; 12],
        /// Fifth bits.
        qh: [u8; 32],
        /// The low four bits of the codes.
        qs: [u8; 128],
    }

    /// `w[e] = d * scales[e / 16] * (low + 16 * high - 32)` with `low = nibble(ql[64 * (e / 128) + e % 64], e / 64 % 2)`
    /// and `high` the bits `2j..2j + 2` of `qh[32 * (e / 128) + e % 32]`, `j = e / 32 % 4`.
    BlockQ6K: Q6_K {
        /// The low four bits of the codes.
        ql: [u8; 128],
        /// The high two bits of the codes.
        qh: [u8; 64],
        /// Scales of 16 elements each.
        scales: [i8; 16],
        /// The scale of the scales.
        d: F16Le,
    }

    /// `w[e] = d * IQ4_NL_VALUES[nibble(qs[e % 16], e / 16)]` ([`IQ4_NL_VALUES`](super::IQ4_NL_VALUES)).
    BlockIq4Nl: IQ4_NL {
        /// The scale.
        d: F16Le,
        /// Codes.
        qs: [u8; 16],
    }

    /// `w[e] = d * sc[e / 32] * IQ4_NL_VALUES[nibble(qs[16 * (e / 32) + e % 16], e / 16 % 2)]`; `sc` as
    /// [`iq4_xs_scales`](super::iq4_xs_scales) gives it.
    BlockIq4Xs: IQ4_XS {
        /// The scale of the scales.
        d: F16Le,
        /// The high two bits of the scales, a little-endian number.
        scales_h: [u8; 2],
        /// The low four bits of the scales.
        scales_l: [u8; 4],
        /// Codes.
        qs: [u8; 128],
    }

    /// `w[e] = e8m0_half(e) * MXFP4_VALUES[nibble(qs[e % 16], e / 16)]` ([`e8m0_half`](super::e8m0_half),
    /// [`MXFP4_VALUES`](super::MXFP4_VALUES)).
    BlockMxfp4: MXFP4 {
        /// The exponent of the scale.
        e: u8,
        /// Codes.
        qs: [u8; 16],
    }
}
