//! Activations as the matrix kernels read them: formats, the tiled layout, and the quantizers.
//!
//! Tokens are grouped in column tiles of `tile` tokens (the last may be narrower). Inside a tile of width `w` the
//! records of one block of all its tokens lie side by side, block after block:
//!
//! ```text
//! record(token t, block b) = bytes[(kb * (t - t % tile) + b * w + t % tile) * record_bytes ..]
//! ```
//!
//! with `kb` blocks per token and `w = min(tile, n - (t - t % tile))`. A record is
//!
//! | format | record |
//! |---|---|
//! | [`ActFormat::Q8x32`] | `scale: f32`, `sum: i32`, `scaled_sum: f32`, `pairs: [i16; 2]`, `codes: [i8; 32]` (48 bytes) |
//! | [`ActFormat::Q8x256`] | `scale: f32`, 12 bytes of zeros, `sums16: [i16; 16]`, `sums32: [i16; 8]`, `pairs16: [[i16; 2]; 16]`, `codes: [i8; 256]` (384 bytes) |
//! | [`ActFormat::F32`] | `x: f32` (4 bytes, one element is one block) |
//! | [`ActFormat::Bf16`] | `[even, odd]: [u16; 2]` (4 bytes, two elements are one block; a missing odd element is 0) |
//!
//! `sum` is the sum of the codes, `scaled_sum = scale * (sum as f32)`, `sums16[i]` and `sums32[i]` are the sums of 16
//! and 32 consecutive codes, and `pairs[j]` (`pairs16[i][j]`: of 16 codes) is the sum of the codes at positions `2j`
//! and `2j + 1` modulo 4. Elements past the last of a row count as zeros.

mod quantize;

pub use quantize::{quantize_acts, quantize_tile, quantize_token};

use crate::{Format, QuantError};

/// The record of 32 elements in [`ActFormat::Q8x32`].
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q8x32 {
    /// The step of the codes: 0, NaN (bits `0x7fc00000`, if an element is not finite), or positive and normal.
    pub scale: f32,
    /// The sum of the codes.
    pub sum: i32,
    /// `scale * (sum as f32)`; NaN (bits `0x7fc00000`) if the scale is.
    pub scaled_sum: f32,
    /// The sums of the codes at positions `2j` and `2j + 1` modulo 4.
    pub pairs: [i16; 2],
    /// The codes, in -127..=127.
    pub codes: [i8; 32],
}

/// The record of 256 elements in [`ActFormat::Q8x256`].
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q8x256 {
    /// As [`Q8x32::scale`].
    pub scale: f32,
    /// Zeros, which align what follows.
    pub zeros: [u32; 3],
    /// The sums of 16 consecutive codes.
    pub sums16: [i16; 16],
    /// The sums of 32 consecutive codes.
    pub sums32: [i16; 8],
    /// As [`Q8x32::pairs`], for every 16 codes.
    pub pairs16: [[i16; 2]; 16],
    /// The codes, in -127..=127.
    pub codes: [i8; 256],
}

const _: () = {
    assert!(size_of::<Q8x32>() == ActFormat::Q8x32.record_bytes());
    assert!(size_of::<Q8x256>() == ActFormat::Q8x256.record_bytes());
};

/// How activations are stored for a matrix kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActFormat {
    /// f32 as it is.
    F32,
    /// Rounded to bf16, to nearest even; then magnitudes below 2^-55 become zeros of their sign.
    Bf16,
    /// int8 with one f32 scale per 32 elements.
    Q8x32,
    /// int8 with one f32 scale per 256 elements.
    Q8x256,
}

impl ActFormat {
    /// Every activation format: `ALL[f.index()] == f`.
    pub const ALL: [ActFormat; 4] = [ActFormat::F32, ActFormat::Bf16, ActFormat::Q8x32, ActFormat::Q8x256];

    /// The position in [`ActFormat::ALL`], for tables indexed by format.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The format that the kernels of a weight format read.
    pub const fn of(weights: Format) -> ActFormat {
        match weights {
            Format::F32 | Format::F16 => ActFormat::F32,
            Format::BF16 => ActFormat::Bf16,
            _ if weights.block_len() == 256 => ActFormat::Q8x256,
            _ => ActFormat::Q8x32,
        }
    }

    /// The name used in kernel ids.
    pub const fn label(self) -> &'static str {
        match self {
            ActFormat::F32 => "f32",
            ActFormat::Bf16 => "bf16",
            ActFormat::Q8x32 => "q8x32",
            ActFormat::Q8x256 => "q8x256",
        }
    }

    /// Elements per block.
    pub const fn block_len(self) -> usize {
        match self {
            ActFormat::F32 => 1,
            ActFormat::Bf16 => 2,
            ActFormat::Q8x32 => 32,
            ActFormat::Q8x256 => 256,
        }
    }

    /// Bytes of the record of one token and block.
    pub const fn record_bytes(self) -> usize {
        match self {
            ActFormat::F32 | ActFormat::Bf16 => 4,
            ActFormat::Q8x32 => 48,
            ActFormat::Q8x256 => 384,
        }
    }

    /// Bytes of the activations of `n` tokens of `k` elements.
    ///
    /// # Errors
    /// [`QuantError::TooLarge`] if the size overflows.
    pub fn bytes(self, n: usize, k: usize) -> Result<usize, QuantError> {
        k.div_ceil(self.block_len())
            .checked_mul(self.record_bytes())
            .and_then(|row| row.checked_mul(n))
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or(QuantError::TooLarge { what: "activations", m: n, k })
    }
}

/// Activations in the tiled layout of this module.
#[derive(Debug, Clone, Copy)]
pub struct ActsRef<'a> {
    format: ActFormat,
    n: usize,
    k: usize,
    tile: usize,
    bytes: &'a [u8],
}

impl<'a> ActsRef<'a> {
    /// Activations of `n` tokens of `k` elements in column tiles of `tile` tokens.
    ///
    /// # Errors
    /// [`QuantError::ShapeMismatch`] if `bytes` has another length than the layout asks for or `tile` is zero.
    pub fn new(
        format: ActFormat,
        (n, k): (usize, usize),
        tile: usize,
        bytes: &'a [u8],
    ) -> Result<ActsRef<'a>, QuantError> {
        let expected = format.bytes(n, k)?;
        if bytes.len() != expected {
            return Err(QuantError::ShapeMismatch {
                what: "bytes of activations",
                expected,
                got: bytes.len(),
            });
        }
        if tile == 0 {
            return Err(QuantError::ShapeMismatch { what: "tokens of a column tile", expected: 1, got: 0 });
        }
        Ok(ActsRef { format, n, k, tile, bytes })
    }

    /// The activation format.
    pub fn format(&self) -> ActFormat {
        self.format
    }

    /// Tokens.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Elements per token.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Tokens of a full column tile.
    pub fn tile(&self) -> usize {
        self.tile
    }

    /// Blocks per token.
    pub fn blocks(&self) -> usize {
        self.k.div_ceil(self.format.block_len())
    }

    /// Column tiles.
    pub fn tiles(&self) -> usize {
        self.n.div_ceil(self.tile)
    }

    /// Tokens of column tile `tile`, and its records, block after block.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile_records(&self, tile: usize) -> (usize, &'a [u8]) {
        let first = tile * self.tile;
        let width = self.tile.min(self.n - first);
        let row = self.blocks() * self.format.record_bytes();
        (width, &self.bytes[first * row..(first + width) * row])
    }
}
