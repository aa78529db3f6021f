//! Nothing but dot products, to measure the machine with.

use std::arch::asm;

use cera_quant::kernels::Dots;

neon_tier! {
    /// Products and their additions, written out so that none is hoisted.
    fn run(rounds: usize) {
        for _ in 0..rounds {
            // SAFETY: the instructions are of NEON and use registers only, which are declared.
            unsafe {
                asm!(
                    "smlal v0.8h, v16.8b, v17.8b\n smlal2 v1.8h, v16.16b, v17.16b",
                    "smlal v2.8h, v16.8b, v17.8b\n smlal2 v3.8h, v16.16b, v17.16b",
                    "smlal v4.8h, v16.8b, v17.8b\n smlal2 v5.8h, v16.16b, v17.16b",
                    "smlal v6.8h, v16.8b, v17.8b\n smlal2 v7.8h, v16.16b, v17.16b",
                    "smlal v18.8h, v16.8b, v17.8b\n smlal2 v19.8h, v16.16b, v17.16b",
                    "smlal v20.8h, v16.8b, v17.8b\n smlal2 v21.8h, v16.16b, v17.16b",
                    "smlal v22.8h, v16.8b, v17.8b\n smlal2 v23.8h, v16.16b, v17.16b",
                    "smlal v24.8h, v16.8b, v17.8b\n smlal2 v25.8h, v16.16b, v17.16b",
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _,
                    out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }
    }
}

/// `smlal` and `smlal2`.
pub(crate) const DOTS: Dots = Dots { run, macs: 8 * 16 };
