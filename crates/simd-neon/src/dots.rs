//! Nothing but dot products, to measure the machine with.

/// The [`Dots`](cera_quant::kernels::Dots) of a tier: sixteen independent sums, eight by each of two instructions, which are
/// given as what stands before and after the register of the sum. Its operands are `v16` and `v17`.
macro_rules! dots {
    ($gate:ident, $macs:literal, $op:literal $with:literal, $op2:literal $with2:literal) => {
        $gate! {
            /// Products and their additions, written out so that none is hoisted.
            fn run_dots(rounds: usize) {
                for _ in 0..rounds {
                    // SAFETY: the instructions are of the tier and use registers only, which are declared.
                    unsafe {
                        std::arch::asm!(
                            concat!($op, " v0", $with), concat!($op2, " v1", $with2),
                            concat!($op, " v2", $with), concat!($op2, " v3", $with2),
                            concat!($op, " v4", $with), concat!($op2, " v5", $with2),
                            concat!($op, " v6", $with), concat!($op2, " v7", $with2),
                            concat!($op, " v18", $with), concat!($op2, " v19", $with2),
                            concat!($op, " v20", $with), concat!($op2, " v21", $with2),
                            concat!($op, " v22", $with), concat!($op2, " v23", $with2),
                            concat!($op, " v24", $with), concat!($op2, " v25", $with2),
                            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                            out("v6") _, out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                            out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                            options(nomem, nostack, preserves_flags),
                        );
                    }
                }
            }
        }

        const DOTS: cera_quant::kernels::Dots =
            cera_quant::kernels::Dots { run: run_dots, macs: 16 * $macs };
    };
}
