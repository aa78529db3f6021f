//! Packed weights: strips of 16 rows, packing and extraction.
//!
//! A strip holds 16 rows, block after block; a block of a strip has exactly 16 times the bytes of a block in the file.
//! Rows past the last are zero bytes. In the formulas `r` is a row of the strip, `e` an element of the block, and a
//! *vector* is 64 bytes of which bytes `4r..4r + 4` belong to row `r`.
//!
//! Groups of 32 elements are stored as
//!
//! - nibbles, 4 vectors: byte `4r + i` of vector `v` has `q[4v + i]` in its low and `q[16 + 4v + i]` in its high half;
//! - fifth (or third) bits, 1 vector: bit `t` of byte `4r + i` belongs to `q[4t + i]`;
//! - bit pairs, 2 vectors: bits `2t..2t + 2` of byte `4r + i` of vector `p` belong to `q[4(4p + t) + i]`;
//! - bytes, 8 vectors: byte `4r + i` of vector `t` is `q[4t + i]`.
//!
//! | format | block of a strip |
//! |---|---|
//! | `Q4_0`, `IQ4_NL` | `d: [f16; 16]`, nibbles |
//! | `Q4_1` | `d: [f16; 16]`, `m: [f16; 16]`, nibbles |
//! | `Q5_0` | `d: [f16; 16]`, nibbles, fifth bits |
//! | `Q5_1` | `d: [f16; 16]`, `m: [f16; 16]`, nibbles, fifth bits |
//! | `Q8_0` | `d: [f16; 16]`, bytes (two's complement) |
//! | `MXFP4` | `e: [u8; 16]`, nibbles |
//! | `Q2_K` | `d: [f16; 16]`, `dmin: [f16; 16]`, scales (4 vectors: 16 bytes a row), 8 x bit pairs |
//! | `Q3_K` | `d: [f16; 16]`, scales (3 vectors: 12 bytes a row), 8 x (bit pairs, third bits) |
//! | `Q4_K` | `d: [f16; 16]`, `dmin: [f16; 16]`, scales (3 vectors: 12 bytes a row), 8 x nibbles |
//! | `Q5_K` | as `Q4_K`, with 8 x (nibbles, fifth bits) |
//! | `Q6_K` | `d: [f16; 16]`, scales (4 vectors: 16 bytes a row), 8 x (nibbles, bit pairs) |
//! | `IQ4_XS` | `d: [f16; 16]`, `scales_h: [u16; 16]`, `scales_l` (1 vector: 4 bytes a row), 8 x nibbles |
//! | `F16` | one element: `[f16; 16]` |
//! | `F32` | one element: `[f32; 16]` |
//! | `BF16` | two elements: `[[even, odd]; 16]`; a missing odd element is 0 |
//!
//! Scale bytes keep the bits and the order of the file: byte `4r + i` of scale vector `v` is byte `4v + i` of the row.
//! `BF16` weights of a magnitude below 2^-55 are packed as zeros of their sign (`docs/numerics.md`, section 3).
//!
//! ```
//! use cera_quant::Format;
//! use cera_quant::pack::{PackedRef, pack, packed_bytes};
//!
//! let (format, m, k) = (Format::Q8_0, 3, 64);
//! let rows = vec![7; m * 2 * format.block_bytes()];
//! let mut packed = vec![0; packed_bytes(format, m, k)?];
//! pack(format, (m, k), &rows, &mut packed)?;
//!
//! let mut row = vec![0; 2 * format.block_bytes()];
//! PackedRef::new(format, m, k, &packed)?.extract_row(2, &mut row)?;
//! assert!(rows.ends_with(&row));
//! # Ok::<(), cera_quant::QuantError>(())
//! ```

mod ahead;
mod blocks;
mod fields;
mod form;
mod quad;
mod strip;

pub(crate) use fields::Fields;
pub use strip::{pack, pack_first_strip, pack_strip};

use crate::{Format, QuantError};

/// Rows of a strip.
pub const STRIP_ROWS: usize = 16;

/// Bytes of a vector: four of every row of a strip.
const VECTOR: usize = 4 * STRIP_ROWS;

/// Names a packed layout. Kernels state the layout that they read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Strips of 16 rows in groups of four consecutive elements, as this module describes.
    Strip16x4,
}

/// A packed matrix of `m` rows and `k` elements per row.
#[derive(Debug, Clone, Copy)]
pub struct PackedRef<'a> {
    format: Format,
    layout: Layout,
    m: usize,
    k: usize,
    bytes: &'a [u8],
}

/// Blocks of a packed row: as in the file, except that two `BF16` elements are one block.
const fn packed_blocks(format: Format, k: usize) -> usize {
    match format {
        Format::BF16 => k.div_ceil(2),
        _ => k / format.block_len(),
    }
}

/// Bytes of one block of a strip.
pub const fn strip_block_bytes(format: Format) -> usize {
    match format {
        Format::BF16 => 2 * STRIP_ROWS * format.block_bytes(),
        _ => STRIP_ROWS * format.block_bytes(),
    }
}

/// Bytes of a strip of rows of `k` elements.
///
/// # Errors
/// [`QuantError::PartialBlock`] if `k` is not a whole number of blocks, [`QuantError::TooLarge`] on overflow.
pub fn strip_bytes(format: Format, k: usize) -> Result<usize, QuantError> {
    if !k.is_multiple_of(format.block_len()) {
        return Err(QuantError::PartialBlock { format, k, block: format.block_len() });
    }
    packed_blocks(format, k).checked_mul(strip_block_bytes(format)).ok_or(QuantError::TooLarge {
        what: "strip",
        m: STRIP_ROWS,
        k,
    })
}

/// Bytes of a packed matrix of `m` rows of `k` elements.
///
/// # Errors
/// As [`strip_bytes`].
pub fn packed_bytes(format: Format, m: usize, k: usize) -> Result<usize, QuantError> {
    strip_bytes(format, k)?
        .checked_mul(m.div_ceil(STRIP_ROWS))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or(QuantError::TooLarge { what: "packed matrix", m, k })
}

impl<'a> PackedRef<'a> {
    /// A packed matrix over `bytes`.
    ///
    /// # Errors
    /// Those of [`packed_bytes`], and [`QuantError::ShapeMismatch`] if `bytes` has another length.
    pub fn new(format: Format, m: usize, k: usize, bytes: &'a [u8]) -> Result<PackedRef<'a>, QuantError> {
        let expected = packed_bytes(format, m, k)?;
        if bytes.len() != expected {
            return Err(QuantError::ShapeMismatch {
                what: "bytes of a packed matrix",
                expected,
                got: bytes.len(),
            });
        }
        Ok(PackedRef { format, layout: Layout::Strip16x4, m, k, bytes })
    }

    /// The weight format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The packed layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Rows.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Elements per row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Blocks per row.
    pub fn blocks(&self) -> usize {
        packed_blocks(self.format, self.k)
    }

    /// Strips of 16 rows.
    pub fn strips(&self) -> usize {
        self.m.div_ceil(STRIP_ROWS)
    }

    /// The strips, one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The blocks of strip `s`, one after the other.
    ///
    /// # Panics
    /// If there is no such strip.
    pub fn strip(&self, s: usize) -> &'a [u8] {
        let size = self.blocks() * strip_block_bytes(self.format);
        &self.bytes[s * size..(s + 1) * size]
    }
}
