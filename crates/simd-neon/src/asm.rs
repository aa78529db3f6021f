//! Instructions that the compiler has no stable function for.
//!
//! Each function is one instruction on values. The assembler takes it only where the function that it ends up in is
//! compiled for its feature.

use std::arch::aarch64::*;
use std::arch::asm;

/// An instruction on values: its operands are in registers, and the first may be both operand and result.
macro_rules! instruction {
    ($text:literal, $($operand:tt)*) => {
        asm!($text, $($operand)*, options(pure, nomem, nostack, preserves_flags))
    };
}

/// The same reference, without an instruction. What lies behind it is addressed by it and a small number, as loads of two
/// vectors need it: the compiler does not know enough to have one register for all rounds of a loop.
#[cfg(feature = "i8mm")]
#[inline(always)]
pub(crate) fn opaque<T>(x: &T) -> &T {
    let mut same: *const T = x;
    // SAFETY: there is no instruction, and so the pointer is that of the reference.
    unsafe {
        asm!("/* {0} */", inlateout(reg) same, options(pure, nomem, nostack, preserves_flags));
        &*same
    }
}

/// The f32 of four f16, exactly.
#[inline(always)]
pub(crate) fn widen(halves: uint16x4_t) -> float32x4_t {
    let out;
    // SAFETY: the instruction is part of every AArch64 and works on the declared registers only.
    unsafe { instruction!("fcvtl {0:v}.4s, {1:v}.4h", lateout(vreg) out, in(vreg) halves) }
    out
}

/// The f32 of the last four of eight f16, exactly.
#[inline(always)]
pub(crate) fn widen_high(halves: uint16x8_t) -> float32x4_t {
    let out;
    // SAFETY: as in `widen`.
    unsafe { instruction!("fcvtl2 {0:v}.4s, {1:v}.8h", lateout(vreg) out, in(vreg) halves) }
    out
}

/// Four f32 as f16, to nearest even as the control register has it.
#[inline(always)]
pub(crate) fn narrow(x: float32x4_t) -> uint16x4_t {
    let out;
    // SAFETY: as in `widen`.
    unsafe { instruction!("fcvtn {0:v}.4h, {1:v}.4s", lateout(vreg) out, in(vreg) x) }
    out
}

/// `acc` plus the four products of signed bytes in each i32.
///
/// # Safety
/// - The machine has the feature `dotprod`.
#[cfg(feature = "dotprod")]
#[inline(always)]
pub(crate) unsafe fn sdot(mut acc: int32x4_t, a: uint8x16_t, b: uint8x16_t) -> int32x4_t {
    // SAFETY: the caller's promise; the instruction works on the declared registers only.
    unsafe {
        instruction!("sdot {0:v}.4s, {1:v}.16b, {2:v}.16b", inlateout(vreg) acc, in(vreg) a, in(vreg) b)
    }
    acc
}

/// `acc` plus the four products of signed bytes of each i32 of `a` with those of i32 `lane` of `b`.
///
/// # Safety
/// - The machine has the feature `dotprod`.
///
/// # Panics
/// If `lane` is four or more.
#[cfg(feature = "dotprod")]
#[inline(always)]
pub(crate) unsafe fn sdot_lane(mut acc: int32x4_t, a: uint8x16_t, b: uint8x16_t, lane: usize) -> int32x4_t {
    macro_rules! of_lane {
        ($text:literal) => {
            // SAFETY: as in `sdot`.
            unsafe { instruction!($text, inlateout(vreg) acc, in(vreg) a, in(vreg) b) }
        };
    }
    match lane {
        0 => of_lane!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[0]"),
        1 => of_lane!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[1]"),
        2 => of_lane!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[2]"),
        3 => of_lane!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[3]"),
        _ => unreachable!("a vector has four lanes"),
    }
    acc
}

/// `acc` plus the product of a 2 x 8 and the transpose of another 2 x 8 matrix of signed bytes, by rows.
///
/// # Safety
/// - The machine has the feature `i8mm`.
#[cfg(feature = "i8mm")]
#[inline(always)]
pub(crate) unsafe fn smmla(mut acc: int32x4_t, a: uint8x16_t, b: uint8x16_t) -> int32x4_t {
    // SAFETY: the caller's promise; the instruction works on the declared registers only.
    unsafe {
        instruction!("smmla {0:v}.4s, {1:v}.16b, {2:v}.16b", inlateout(vreg) acc, in(vreg) a, in(vreg) b)
    }
    acc
}
