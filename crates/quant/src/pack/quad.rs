//! Words of four rows at once, in which packing moves codes.

/// Rows of a [`Quad`].
pub(super) const QUAD_ROWS: usize = 4;

/// A word of each of four rows, in one register of every 64-bit processor that there are kernels for.
#[derive(Clone, Copy)]
pub(super) struct Quad(imp::Vector);

impl Quad {
    /// The words of four rows.
    #[inline(always)]
    pub(super) fn of(words: [u32; QUAD_ROWS]) -> Quad {
        Quad(bytemuck::cast(words))
    }

    /// The first four words of each row, one after the other.
    #[inline(always)]
    pub(super) fn columns(rows: [&[u8; 16]; QUAD_ROWS]) -> [Quad; 4] {
        imp::transpose(rows.map(|row| bytemuck::pod_read_unaligned(row))).map(Quad)
    }

    /// The bytes, row after row.
    #[inline(always)]
    pub(super) fn bytes(self) -> [u8; 16] {
        bytemuck::cast(self.0)
    }

    /// The word for every row.
    #[inline(always)]
    pub(super) fn splat(x: u32) -> Quad {
        Quad::of([x; QUAD_ROWS])
    }

    /// `self & other`
    #[inline(always)]
    pub(super) fn and(self, other: Quad) -> Quad {
        Quad(imp::and(self.0, other.0))
    }

    /// `self | other`
    #[inline(always)]
    pub(super) fn or(self, other: Quad) -> Quad {
        Quad(imp::or(self.0, other.0))
    }

    /// Shifted left; zeros come in.
    #[inline(always)]
    pub(super) fn shl(self, by: usize) -> Quad {
        Quad(imp::shl(self.0, by))
    }

    /// Shifted right; zeros come in.
    #[inline(always)]
    pub(super) fn shr(self, by: usize) -> Quad {
        Quad(imp::shr(self.0, by))
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    //! SSE2, which is part of x86-64.

    use std::arch::x86_64::*;

    pub(super) type Vector = __m128i;

    #[inline(always)]
    pub(super) fn transpose([a, b, c, d]: [Vector; 4]) -> [Vector; 4] {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(ab, cd),
                _mm_unpackhi_epi64(ab, cd),
                _mm_unpacklo_epi64(ab_high, cd_high),
                _mm_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    #[inline(always)]
    pub(super) fn and(a: Vector, b: Vector) -> Vector {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_and_si128(a, b) }
    }

    #[inline(always)]
    pub(super) fn or(a: Vector, b: Vector) -> Vector {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_or_si128(a, b) }
    }

    #[inline(always)]
    pub(super) fn shl(a: Vector, by: usize) -> Vector {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_sll_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }

    #[inline(always)]
    pub(super) fn shr(a: Vector, by: usize) -> Vector {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_srl_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }
}

#[cfg(target_arch = "aarch64")]
mod imp {
    //! NEON, which is part of AArch64.

    use std::arch::aarch64::*;

    pub(super) type Vector = uint32x4_t;

    #[inline(always)]
    pub(super) fn transpose([a, b, c, d]: [Vector; 4]) -> [Vector; 4] {
        // SAFETY: NEON is part of AArch64.
        unsafe {
            let wide = vreinterpretq_u64_u32;
            let (even, odd) = ((vtrn1q_u32(a, b), vtrn1q_u32(c, d)), (vtrn2q_u32(a, b), vtrn2q_u32(c, d)));
            [
                vreinterpretq_u32_u64(vtrn1q_u64(wide(even.0), wide(even.1))),
                vreinterpretq_u32_u64(vtrn1q_u64(wide(odd.0), wide(odd.1))),
                vreinterpretq_u32_u64(vtrn2q_u64(wide(even.0), wide(even.1))),
                vreinterpretq_u32_u64(vtrn2q_u64(wide(odd.0), wide(odd.1))),
            ]
        }
    }

    #[inline(always)]
    pub(super) fn and(a: Vector, b: Vector) -> Vector {
        // SAFETY: NEON is part of AArch64.
        unsafe { vandq_u32(a, b) }
    }

    #[inline(always)]
    pub(super) fn or(a: Vector, b: Vector) -> Vector {
        // SAFETY: NEON is part of AArch64.
        unsafe { vorrq_u32(a, b) }
    }

    #[inline(always)]
    pub(super) fn shl(a: Vector, by: usize) -> Vector {
        // SAFETY: NEON is part of AArch64.
        unsafe { vshlq_u32(a, vdupq_n_s32(by as i32)) }
    }

    #[inline(always)]
    pub(super) fn shr(a: Vector, by: usize) -> Vector {
        // SAFETY: NEON is part of AArch64.
        unsafe { vshlq_u32(a, vdupq_n_s32(-(by as i32))) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    pub(super) type Vector = [u32; 4];

    pub(super) fn transpose(rows: [Vector; 4]) -> [Vector; 4] {
        std::array::from_fn(|column| rows.map(|row| row[column]))
    }

    pub(super) fn and(a: Vector, b: Vector) -> Vector {
        std::array::from_fn(|i| a[i] & b[i])
    }

    pub(super) fn or(a: Vector, b: Vector) -> Vector {
        std::array::from_fn(|i| a[i] | b[i])
    }

    pub(super) fn shl(a: Vector, by: usize) -> Vector {
        a.map(|word| word << by)
    }

    pub(super) fn shr(a: Vector, by: usize) -> Vector {
        a.map(|word| word >> by)
    }
}
