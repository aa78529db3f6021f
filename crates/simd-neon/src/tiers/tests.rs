//! The assembler takes an instruction only inside of a function with its feature: that the functions of this file
//! assemble shows that each gate enables what its tier is for.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use super::*;

neon_tier! {
    fn neon_entry() -> i32 {
        vaddvq_s32(vpaddlq_s16(vmull_s8(vdup_n_s8(3), vdup_n_s8(-5))))
    }
}

dotprod_tier! {
    fn dotprod_entry() -> i32 {
        let mut dot = vdupq_n_s32(0);
        // SAFETY: the instruction reads and writes these registers only, and the gate enables its feature.
        unsafe {
            asm!("sdot {d:v}.4s, {a:v}.16b, {b:v}.16b", d = inout(vreg) dot, a = in(vreg) vdupq_n_s8(3),
                b = in(vreg) vdupq_n_s8(-5), options(pure, nomem, nostack, preserves_flags));
        }
        vaddvq_s32(dot) + neon_entry()
    }
}

i8mm_tier! {
    fn i8mm_entry() -> i32 {
        let mut dot = vdupq_n_s32(0);
        // SAFETY: the instruction reads and writes these registers only, and the gate enables its feature.
        unsafe {
            asm!("smmla {d:v}.4s, {a:v}.16b, {b:v}.16b", d = inout(vreg) dot, a = in(vreg) vdupq_n_s8(3),
                b = in(vreg) vdupq_n_s8(-5), options(pure, nomem, nostack, preserves_flags));
        }
        vaddvq_s32(dot) + dotprod_entry()
    }
}

/// A table entry: the gated functions coerce to it.
type Entry = unsafe fn() -> i32;

#[test]
fn gated_functions_run_where_every_listed_feature_is_present() {
    let neon: Entry = neon_entry;
    let dotprod: Entry = dotprod_entry;
    let i8mm: Entry = i8mm_entry;
    // SAFETY: NEON is in the baseline of the target.
    assert_eq!(unsafe { neon() }, -15 * 8);
    if is_aarch64_feature_detected!("dotprod") {
        // SAFETY: every feature of the tier is present.
        assert_eq!(unsafe { dotprod() }, -15 * 16 - 15 * 8);
        if is_aarch64_feature_detected!("i8mm") {
            // SAFETY: every feature of the tier is present.
            assert_eq!(unsafe { i8mm() }, -15 * 32 - 15 * 16 - 15 * 8);
        }
    }
}

#[test]
fn each_list_extends_the_one_before() {
    assert_eq!(NEON, ["neon"]);
    assert_eq!(NEON_DOTPROD, ["neon", "dotprod"]);
    assert_eq!(NEON_I8MM, ["neon", "dotprod", "i8mm"]);
}
