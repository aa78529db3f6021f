//! Nothing but dot products, to measure the machine with.

use std::arch::asm;

use cera_quant::kernels::Dots;

dotprod_tier! {
    fn run(rounds: usize) {
        for _ in 0..rounds {
            // SAFETY: the instructions are of the tier and use registers only, which are declared.
            unsafe {
                asm!(
                    "sdot v0.4s, v16.16b, v17.16b\n sdot v1.4s, v16.16b, v17.16b",
                    "sdot v2.4s, v16.16b, v17.16b\n sdot v3.4s, v16.16b, v17.16b",
                    "sdot v4.4s, v16.16b, v17.16b\n sdot v5.4s, v16.16b, v17.16b",
                    "sdot v6.4s, v16.16b, v17.16b\n sdot v7.4s, v16.16b, v17.16b",
                    "sdot v18.4s, v16.16b, v17.16b\n sdot v19.4s, v16.16b, v17.16b",
                    "sdot v20.4s, v16.16b, v17.16b\n sdot v21.4s, v16.16b, v17.16b",
                    "sdot v22.4s, v16.16b, v17.16b\n sdot v23.4s, v16.16b, v17.16b",
                    "sdot v24.4s, v16.16b, v17.16b\n sdot v25.4s, v16.16b, v17.16b",
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _,
                    out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }
    }
}

/// `sdot`.
pub(crate) const DOTS: Dots = Dots { run, macs: 16 * 16 };
