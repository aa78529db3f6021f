//! Nothing but matrix products, to measure the machine with.

use std::arch::asm;

use cera_quant::kernels::Dots;

i8mm_tier! {
    fn run(rounds: usize) {
        for _ in 0..rounds {
            // SAFETY: the instructions are of the tier and use registers only, which are declared.
            unsafe {
                asm!(
                    "smmla v0.4s, v16.16b, v17.16b\n smmla v1.4s, v16.16b, v17.16b",
                    "smmla v2.4s, v16.16b, v17.16b\n smmla v3.4s, v16.16b, v17.16b",
                    "smmla v4.4s, v16.16b, v17.16b\n smmla v5.4s, v16.16b, v17.16b",
                    "smmla v6.4s, v16.16b, v17.16b\n smmla v7.4s, v16.16b, v17.16b",
                    "smmla v18.4s, v16.16b, v17.16b\n smmla v19.4s, v16.16b, v17.16b",
                    "smmla v20.4s, v16.16b, v17.16b\n smmla v21.4s, v16.16b, v17.16b",
                    "smmla v22.4s, v16.16b, v17.16b\n smmla v23.4s, v16.16b, v17.16b",
                    "smmla v24.4s, v16.16b, v17.16b\n smmla v25.4s, v16.16b, v17.16b",
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _,
                    out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }
    }
}

/// `smmla`.
pub(crate) const DOTS: Dots = Dots { run, macs: 16 * 32 };
