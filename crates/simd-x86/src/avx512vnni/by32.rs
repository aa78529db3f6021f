//! Products of formats of 32 elements a block.

use super::lanes::Lanes;
use super::vectors::F;
use crate::matrix::Kernel;
use crate::matrix::by32::{AHEAD, By32, Codes32, Scales};
use crate::matrix::records::{Record32, int};
use crate::matrix::vectors::Vectors;

/// Tokens of the widest tile. With fewer, reading the weights takes the time: they are fetched ahead.
const WIDEST: usize = 5;

impl<B: Codes32> Kernel<Lanes> for By32<B> {
    const FORMAT: cera_quant::Format = B::FORMAT;
    type Block = B::Block;
    type Record = Record32;

    /// An outer product for each vector of codes: a word of activations in a register meets the codes of all groups.
    /// The chains of dot products start at `-offset * sum of the activation codes`.
    #[inline(always)]
    fn blocks<const R: usize, const C: usize>(
        t: Lanes,
        blocks: [(&B::Block, usize); R],
        x: &[Record32; C],
        acc: &mut [[F; C]; R],
    ) {
        let mut sums = [[t.splat32(0); C]; R];
        unrolled!(c < C {
            let start = t.splat32(-B::OFFSET * int(x[c].sum));
            unrolled!(r < R { sums[r][c] = start; });
        });
        unrolled!(v in [0 4 1 5 2 6 3 7] {
            let mut codes = [t.splat32(0); R];
            unrolled!(r < R { codes[r] = B::code(t, blocks[r].0, blocks[r].1, v); });
            unrolled!(c < C {
                let x = t.splat32(int(x[c].codes[v]));
                unrolled!(r < R { sums[r][c] = t.dot4(sums[r][c], codes[r], x); });
            });
            unrolled!(c < C {
                unrolled!(r < R { sums[r][c] = t.pin(sums[r][c]); });
            });
        });
        unrolled!(r < R {
            let (block, part) = blocks[r];
            if C < WIDEST {
                t.prefetch(bytemuck::bytes_of(block), AHEAD);
            }
            let scales = Scales::of::<_, B>(t, block, part);
            unrolled!(c < C { acc[r][c] = scales.link(t, sums[r][c], &x[c], acc[r][c]); });
        });
    }
}
