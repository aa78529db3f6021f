//! The forms in which the fields of 32 codes are stored, for one row of a strip: the inner layout that all block
//! formats share.

use super::VECTOR;
use super::quad::Quad;

/// A field of 32 consecutive codes of one row, or of four, one code a byte: byte `i` of word `t` belongs to element
/// `4t + i`.
pub(super) type Codes<W = u32> = [W; 8];

/// How the packed layout stores one field of 32 codes of 16 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// 1 bit, in one vector.
    Bits,
    /// 2 bits, in two vectors.
    Pairs,
    /// 4 bits, in four vectors.
    Nibbles,
    /// 8 bits, in eight vectors.
    Bytes,
}

/// The word with `byte` in all four bytes.
const fn splat(byte: u8) -> u32 {
    u32::from_le_bytes([byte; 4])
}

/// The four bytes of row `row` in vector `vector`.
#[inline(always)]
fn word(bytes: &[u8], vector: usize, row: usize) -> u32 {
    let at = VECTOR * vector + 4 * row;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Form {
    /// Bits of a code in this form.
    pub(super) const fn width(self) -> usize {
        self.vectors()
    }

    /// The vectors of 64 bytes that 32 codes of 16 rows take.
    pub(super) const fn vectors(self) -> usize {
        match self {
            Form::Bits => 1,
            Form::Pairs => 2,
            Form::Nibbles => 4,
            Form::Bytes => 8,
        }
    }

    /// The word whose bytes have the bits of this form.
    pub(super) const fn mask(self) -> u32 {
        splat((0xff_u16 >> (8 - self.width())) as u8)
    }

    /// Stores the field of four rows from row `row`. The bytes of `codes` must have no bits outside of [`Form::mask`].
    #[inline(always)]
    pub(super) fn put(self, codes: &Codes<Quad>, row: usize, out: &mut [u8]) {
        let mut set = |vector: usize, word: Quad| {
            let at = VECTOR * vector + 4 * row;
            out[at..at + 16].copy_from_slice(&word.bytes());
        };
        match self {
            Form::Bits => {
                let bits = (1..8).fold(codes[0], |bits, t| bits.or(codes[t].shl(t)));
                set(0, bits);
            }
            Form::Pairs => {
                for p in 0..2 {
                    let first = codes[4 * p];
                    set(p, (1..4).fold(first, |pairs, t| pairs.or(codes[4 * p + t].shl(2 * t))));
                }
            }
            Form::Nibbles => {
                for v in 0..4 {
                    set(v, codes[v].or(codes[4 + v].shl(4)));
                }
            }
            Form::Bytes => {
                for (t, &code) in codes.iter().enumerate() {
                    set(t, code);
                }
            }
        }
    }

    /// The field of one row: the inverse of [`Form::put`].
    #[inline(always)]
    pub(super) fn get(self, row: usize, bytes: &[u8]) -> Codes {
        let mask = self.mask();
        std::array::from_fn(|t| match self {
            Form::Bits => word(bytes, 0, row) >> t & mask,
            Form::Pairs => word(bytes, t / 4, row) >> (2 * (t % 4)) & mask,
            Form::Nibbles => word(bytes, t % 4, row) >> (4 * (t / 4)) & mask,
            Form::Bytes => word(bytes, t, row),
        })
    }
}
