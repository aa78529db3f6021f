//! Formats without blocks: chains over single elements, or over pairs of bf16.

use bytemuck::Pod;
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::records::{Word, float, int};
use super::vectors::{AHEAD, Halves, Vector, Vectors, prefetch};
use super::{Blocks, Kernel, Sums};

const _: () = {
    assert!(size_of::<Vector>() == strip_block_bytes(Format::F32));
    assert!(size_of::<Halves>() == strip_block_bytes(Format::F16));
    assert!(size_of::<Vector>() == strip_block_bytes(Format::BF16));
};

/// How a format without blocks is multiplied on the vectors of a tier.
pub trait Elements<T: Vectors> {
    /// The format.
    const FORMAT: Format;
    /// One element of each row of a strip, or one pair.
    type Block: Pod;
    /// The weights, or the activation in every row, in registers.
    type Operand: Copy;

    /// The weights of part `part`.
    fn weights(t: T, block: &Self::Block, part: usize) -> Self::Operand;
    /// The activations of one token.
    fn activations(t: T, x: Word) -> Self::Operand;
    /// The next link, or the next two, of the chains.
    fn link(t: T, w: Self::Operand, x: Self::Operand, acc: T::F) -> T::F;
}

/// The kernel of a format without blocks.
pub struct ByElement<E>(E);

impl<T: Vectors, E: Elements<T>> Kernel<T> for ByElement<E> {
    const FORMAT: Format = E::FORMAT;
    type Block = E::Block;
    type Record = Word;

    /// Token after token, so that the registers need to hold the activations of one at a time.
    #[inline(always)]
    fn blocks<const R: usize, const C: usize>(
        t: T,
        blocks: Blocks<'_, E::Block, R>,
        x: &[Word; C],
        acc: &mut Sums<T::F, R, C>,
    ) {
        let mut weights = [E::weights(t, blocks[0].0, blocks[0].1); R];
        unrolled!(r < R {
            let (block, part) = blocks[r];
            if C == 1 {
                prefetch(t, bytemuck::bytes_of(block), AHEAD);
            }
            weights[r] = E::weights(t, block, part);
        });
        unrolled!(c < C {
            let x = E::activations(t, x[c]);
            unrolled!(r < R {
                acc[r][c] = E::link(t, weights[r], x, acc[r][c]);
            });
        });
    }
}

/// Formats of single elements, by how the elements of a part of a strip become f32.
macro_rules! single_elements {
    ($($(#[$doc:meta])* $name:ident: $block:ty = $load:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl<T: Vectors> Elements<T> for $name {
            const FORMAT: Format = Format::$name;
            type Block = $block;
            type Operand = T::F;

            #[inline(always)]
            fn weights(t: T, block: &$block, part: usize) -> T::F {
                $load(t, block, part)
            }

            #[inline(always)]
            fn activations(t: T, x: Word) -> T::F {
                t.splat(float(x))
            }

            #[inline(always)]
            fn link(t: T, w: T::F, x: T::F, acc: T::F) -> T::F {
                t.fma(w, x, acc)
            }
        }
    )*};
}

single_elements! {
    /// The format `F32`.
    F32: Vector = |t: T, block, part| t.as_f32(t.load(block, part));
    /// The format `F16`.
    F16: Halves = |t: T, block, part| t.load_f16(block, part);
}

/// The format `BF16` by f32 operations: of the two elements of a pair the odd one comes first.
pub struct Bf16;

impl<T: Vectors> Elements<T> for Bf16 {
    const FORMAT: Format = Format::BF16;
    type Block = Vector;
    /// The odd elements, and the even ones.
    type Operand = [T::F; 2];

    #[inline(always)]
    fn weights(t: T, block: &Vector, part: usize) -> [T::F; 2] {
        halves(t, t.load(block, part))
    }

    #[inline(always)]
    fn activations(t: T, x: Word) -> [T::F; 2] {
        halves(t, t.splat32(int(x)))
    }

    #[inline(always)]
    fn link(t: T, w: [T::F; 2], x: [T::F; 2], acc: T::F) -> T::F {
        t.fma(w[1], x[1], t.fma(w[0], x[0], acc))
    }
}

/// The second bf16 of each pair, and the first.
#[inline(always)]
pub fn halves<T: Vectors>(t: T, pairs: T::I) -> [T::F; 2] {
    [t.as_f32(t.and(pairs, t.splat32(-0x1_0000))), t.as_f32(t.shl(pairs, 16))]
}
