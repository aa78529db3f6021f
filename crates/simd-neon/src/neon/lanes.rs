//! The 16 virtual lanes in four registers.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use cera_quant::num::{LANES, Simd};
use cera_simd::{Machine, by_intrinsics};

use crate::asm;

/// What [`Lanes`] prove: the tier `neon`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neon;

/// Proof that the machine has the tier `neon`, or a tier `T` that extends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes<T = Neon>(PhantomData<T>);

/// Lanes 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
pub(crate) type Quarters = [float32x4_t; 4];

/// Methods that are one intrinsic on each quarter.
macro_rules! by_quarters {
    ($(fn $name:ident($($arg:ident),*) -> $ret:ty = $intrinsic:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Quarters),*) -> [$ret; 4] {
            // SAFETY: the intrinsic takes values, and the token `self` proves that the machine has it.
            #[allow(clippy::macro_metavars_in_unsafe)]
            unsafe {
                [
                    $intrinsic($($arg[0]),*),
                    $intrinsic($($arg[1]),*),
                    $intrinsic($($arg[2]),*),
                    $intrinsic($($arg[3]),*),
                ]
            }
        }
    )*};
}

impl<T: Copy> Lanes<T> {
    /// The proof.
    ///
    /// # Safety
    /// - The machine has every feature of the tier `T`.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Lanes<T> {
        Lanes(PhantomData)
    }

    by_intrinsics! {
        fn add4(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32;
        fn greater(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcgtq_f32;
        fn choose(m: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32;
        // Lane `i` is lane `i + 2`, or `i + 1`, modulo 4.
        fn by_two(a: float32x4_t, same: float32x4_t) -> float32x4_t = vextq_f32::<2>;
        fn by_one(a: float32x4_t, same: float32x4_t) -> float32x4_t = vextq_f32::<1>;
        fn first(a: float32x4_t) -> f32 = vgetq_lane_f32::<0>;
        fn bits_of(a: float32x4_t) -> uint32x4_t = vreinterpretq_u32_f32;
        fn of_bits(a: uint32x4_t) -> float32x4_t = vreinterpretq_f32_u32;
        fn add_bits(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vaddq_u32;
        fn to_exponent(a: uint32x4_t) -> uint32x4_t = vshlq_n_u32::<23>;
        fn inverted(a: uint32x4_t) -> uint32x4_t = vmvnq_u32;
    }

    by_quarters! {
        fn equal(a, b) -> uint32x4_t = vceqq_f32;
    }

    #[inline(always)]
    fn max4(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        self.choose(self.greater(a, b), a, b)
    }

    #[inline(always)]
    fn add_exponent4(self, v: float32x4_t, t: float32x4_t) -> float32x4_t {
        self.of_bits(self.add_bits(self.bits_of(v), self.to_exponent(self.bits_of(t))))
    }
}

/// Frames are aligned to the vectors as they are, and streams are followed by the processors themselves.
impl<T: Copy> Machine for Lanes<T> {}

impl<T: Copy> Simd for Lanes<T> {
    const REGISTERS: usize = 8;

    type F = Quarters;
    type M = [uint32x4_t; 4];

    by_quarters! {
        fn add(a, b) -> float32x4_t = vaddq_f32;
        fn sub(a, b) -> float32x4_t = vsubq_f32;
        fn mul(a, b) -> float32x4_t = vmulq_f32;
        fn div(a, b) -> float32x4_t = vdivq_f32;
        fn neg(a) -> float32x4_t = vnegq_f32;
        fn lt(a, b) -> uint32x4_t = vcltq_f32;
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Quarters {
        // SAFETY: `self` proves the instruction.
        [unsafe { vdupq_n_f32(x) }; 4]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Quarters {
        let x = x.as_ptr();
        // SAFETY: sixteen f32 are readable, and `self` proves the instruction.
        unsafe { [vld1q_f32(x), vld1q_f32(x.add(4)), vld1q_f32(x.add(8)), vld1q_f32(x.add(12))] }
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Quarters {
        // SAFETY: sixteen u16 are readable, and `self` proves the instructions.
        unsafe {
            let (low, high) = (vld1q_u16(x.as_ptr()), vld1q_u16(x.as_ptr().add(8)));
            [
                asm::widen(vget_low_u16(low)),
                asm::widen_high(low),
                asm::widen(vget_low_u16(high)),
                asm::widen_high(high),
            ]
        }
    }

    #[inline(always)]
    fn store(self, v: Quarters, out: &mut [f32; LANES]) {
        for (v, out) in v.into_iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: four f32 are writable, and `self` proves the instruction.
            unsafe { vst1q_f32(out.as_mut_ptr(), v) }
        }
    }

    #[inline(always)]
    fn store_f16(self, v: Quarters, out: &mut [u16; LANES]) {
        for (v, out) in v.into_iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: four u16 are writable, and `self` proves the instruction.
            unsafe { vst1_u16(out.as_mut_ptr(), asm::narrow(v)) }
        }
    }

    #[inline(always)]
    fn fma(self, a: Quarters, b: Quarters, c: Quarters) -> Quarters {
        // SAFETY: `self` proves the instruction.
        std::array::from_fn(|i| unsafe { vfmaq_f32(c[i], a[i], b[i]) })
    }

    #[inline(always)]
    fn max(self, a: Quarters, b: Quarters) -> Quarters {
        std::array::from_fn(|i| self.max4(a[i], b[i]))
    }

    #[inline(always)]
    fn is_nan(self, a: Quarters) -> [uint32x4_t; 4] {
        self.equal(a, a).map(|equal| self.inverted(equal))
    }

    #[inline(always)]
    fn select(self, m: [uint32x4_t; 4], a: Quarters, b: Quarters) -> Quarters {
        std::array::from_fn(|i| self.choose(m[i], a[i], b[i]))
    }

    #[inline(always)]
    fn add_exponent(self, v: Quarters, t: Quarters) -> Quarters {
        std::array::from_fn(|i| self.add_exponent4(v[i], t[i]))
    }

    #[inline(always)]
    fn reduce_add(self, v: Quarters) -> f32 {
        let v = self.add4(self.add4(v[0], v[2]), self.add4(v[1], v[3]));
        let v = self.add4(v, self.by_two(v, v));
        self.first(self.add4(v, self.by_one(v, v)))
    }

    #[inline(always)]
    fn reduce_max(self, v: Quarters) -> f32 {
        let v = self.max4(self.max4(v[0], v[2]), self.max4(v[1], v[3]));
        let v = self.max4(v, self.by_two(v, v));
        self.first(self.max4(v, self.by_one(v, v)))
    }
}
