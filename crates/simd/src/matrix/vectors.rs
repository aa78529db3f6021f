//! The vocabulary of integer vectors in which formats unpack their codes.

use cera_quant::num::LANES;

use crate::Machine;

/// Four bytes of every row of a strip: bytes `4r..4r + 4` belong to row `r`.
pub type Vector = [u8; 64];

/// One number of 16 bits for every row of a strip.
pub type Halves = [u8; 32];

/// Vectors that hold four codes, or one number of 32 bits, of each of some rows of a strip.
///
/// A value of an implementing type proves that this machine has the instructions. As with
/// [`Simd`](cera_quant::num::Simd), what is generic over vectors is `#[inline(always)]` and passes none through closures.
pub trait Vectors: Machine {
    /// Four codes, four bytes, two i16 or one i32 of each row.
    type I: Copy;
    /// One f32 of each row.
    type F: Copy;
    /// The rows: a strip has `16 / ROWS` parts.
    const ROWS: usize;
    /// Whether the tier multiplies codes as signed bytes: unpacked blocks then hold `code - OFFSET`, and the whole minima
    /// of a row four in a word.
    const SIGNED: bool = false;

    /// Part `part` of a vector in memory.
    fn load(self, vector: &Vector, part: usize) -> Self::I;
    /// The numbers of the rows of part `part`.
    fn load_f16(self, halves: &Halves, part: usize) -> Self::F;
    /// The numbers of the rows of part `part`, without a sign.
    fn load_u16(self, numbers: &Halves, part: usize) -> Self::I;
    /// The powers of two [`e8m0_half`](cera_quant::blocks::e8m0_half) of the rows of part `part`.
    fn load_e8m0(self, exponents: &[u8; 16], part: usize) -> Self::F;
    /// Stores part `part` of a vector.
    fn put(self, v: Self::I, vector: &mut Vector, part: usize);
    /// Stores the numbers of the rows as the first of `out`.
    fn store(self, v: Self::F, out: &mut [f32; LANES]);

    /// The number in every row.
    fn splat(self, x: f32) -> Self::F;
    /// The number in every row.
    fn splat32(self, x: i32) -> Self::I;
    /// The byte in every byte.
    fn splat8(self, x: u8) -> Self::I;
    /// A table for [`Vectors::look_up`].
    fn table(self, table: &[u8; 16]) -> Self::I;
    /// The entry of the table for every byte, which is below 16.
    fn look_up(self, table: Self::I, codes: Self::I) -> Self::I;

    /// `a & b`
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a | b`
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a ^ b`
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    /// Numbers of 32 bits, shifted right by a constant; zeros come in.
    fn shr(self, a: Self::I, by: u32) -> Self::I;
    /// Numbers of 32 bits, shifted left by a constant.
    fn shl(self, a: Self::I, by: u32) -> Self::I;
    /// Numbers of 32 bits, shifted right by a constant; the sign comes in.
    fn sar(self, a: Self::I, by: u32) -> Self::I;
    /// `a + b` of 32 bits.
    fn add32(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b` of 8 bits, modulo 2^8.
    fn sub8(self, a: Self::I, b: Self::I) -> Self::I;
    /// `acc` plus the two products of i16 in each i32.
    fn dot2(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I;

    /// The bits of a f32.
    fn bits(self, a: Self::F) -> Self::I;
    /// The f32 of these bits.
    fn as_f32(self, a: Self::I) -> Self::F;
    /// The nearest f32 of an i32.
    fn to_f32(self, a: Self::I) -> Self::F;
    /// `a * b`
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c` with one rounding.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b` with one rounding.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;

    /// The high four bits of every byte.
    #[inline(always)]
    fn high4(self, v: Self::I) -> Self::I {
        self.and(self.shr(v, 4), self.splat8(0x0f))
    }

    /// +0 in every row.
    #[inline(always)]
    fn zero(self) -> Self::F {
        self.splat(0.0)
    }
}

/// How many bytes ahead of what it works on a kernel of packed strips fetches, where reading them takes all the time: one
/// stream reaches the bandwidth of the memory with this many under way. Measured by `examples/peak.rs` of `cera-simd-x86`.
pub const AHEAD: usize = 16 << 10;

/// Fetches bytes of memory that lie `ahead` of these into the caches; they need not exist.
#[inline(always)]
pub fn prefetch<T: Machine>(t: T, bytes: &[u8], ahead: usize) {
    let first = bytes.as_ptr().wrapping_add(ahead);
    for line in (0..bytes.len()).step_by(64) {
        t.fetch(first.wrapping_add(line));
    }
}

/// The four bits of every byte that a nibble vector has in its low halves.
#[inline(always)]
pub fn low<T: Vectors>(t: T, v: T::I) -> T::I {
    t.and(v, t.splat8(0x0f))
}

/// The four bits of every byte that a nibble vector has in its high halves.
#[inline(always)]
pub fn high<T: Vectors>(t: T, v: T::I) -> T::I {
    t.high4(v)
}

/// Vector `v` of the codes of 32 elements of nibbles: vector `v` of four has element `4v` in its low and `16 + 4v` in its
/// high halves.
#[inline(always)]
pub fn nibble<T: Vectors>(t: T, vectors: &[Vector; 4], part: usize, v: usize) -> T::I {
    let both = t.load(&vectors[v % 4], part);
    if v < 4 { low(t, both) } else { high(t, both) }
}

/// Moves bit `from` of every byte to bit `to` and clears the others.
#[inline(always)]
pub fn move_bit<T: Vectors>(t: T, v: T::I, from: u32, to: u32) -> T::I {
    let moved = if from < to { t.shl(v, to - from) } else { t.shr(v, from - to) };
    t.and(moved, t.splat8(1 << to))
}

/// As [`nibble`] with 16 times bit `v` of `fifth` added to the codes of vector `v`.
#[inline(always)]
pub fn with_fifth_bit<T: Vectors>(
    t: T,
    vectors: &[Vector; 4],
    fifth: &Vector,
    part: usize,
    v: usize,
) -> T::I {
    t.or(nibble(t, vectors, part, v), move_bit(t, t.load(fifth, part), v as u32, 4))
}

/// Moves the bits `2 * from` and `2 * from + 1` of every byte to bit `to` and the next, and clears the others.
#[inline(always)]
pub fn bit_pair<T: Vectors>(t: T, v: T::I, from: u32, to: u32) -> T::I {
    let moved = if 2 * from < to { t.shl(v, to - 2 * from) } else { t.shr(v, 2 * from - to) };
    t.and(moved, t.splat8(3 << to))
}

/// The low bytes of the values of a table plus an offset, for [`looked_up`].
pub const fn shifted(values: [i8; 16], offset: i32) -> [u8; 16] {
    let mut codes = [0; 16];
    let mut i = 0;
    while i < 16 {
        codes[i] = (values[i] as i32 + offset) as u8;
        i += 1;
    }
    codes
}

/// As [`nibble`], with the entry of a table in place of each code.
#[inline(always)]
pub fn looked_up<T: Vectors>(t: T, table: &[u8; 16], vectors: &[Vector; 4], part: usize, v: usize) -> T::I {
    t.look_up(t.table(table), nibble(t, vectors, part, v))
}
