//! Matrix kernels over packed strips, written once for the vectors of every tier.
//!
//! A vector lane is a weight row. A *group* is the rows of one vector: a strip, or a part of it where vectors are
//! shorter. A kernel keeps the sums of `R` groups and `C` tokens in registers for all of k, so that every result is
//! one chain; formats say how their codes and scales unpack ([`by32`], [`by256`]), and tiers how sums of products are
//! formed.

pub(crate) mod by256;
pub(crate) mod by32;
pub(crate) mod floats;
pub(crate) mod records;
pub(crate) mod vectors;

use bytemuck::Pod;
use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::pack::{Layout, STRIP_ROWS};

use vectors::Vectors;

/// Bytes of weights that are worked on, tile after tile of activations, before the next ones: they stay in the
/// second-level cache while the activations stream past.
const RESIDENT: usize = 192 << 10;

/// A format's block of a strip times the records of some tokens, on the vectors of a tier.
pub(crate) trait Kernel<T: Vectors> {
    /// The format of the weights.
    const FORMAT: Format;
    /// A block of a strip.
    type Block: Pod;
    /// The activations of one token that a block meets.
    type Record: Pod;

    /// Adds the products of part `part` of a block with each record to the sums of that token.
    fn block<const C: usize>(
        t: T,
        block: &Self::Block,
        part: usize,
        x: &[Self::Record; C],
        acc: &mut [T::F; C],
    );
}

/// Groups times tokens that one register tile computes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a, 'b> {
    args: &'a GemmArgs<'b>,
    /// The first group, counted from the first row of the matrix.
    group: usize,
    /// The column tile.
    tile: usize,
    /// The first token, counted from the first of the column tile.
    token: usize,
}

/// Computes a [`Job`].
pub(crate) type Tile = for<'a, 'b> unsafe fn(&Job<'a, 'b>);

/// The register tiles of a kernel: `tiles[r - 1][c - 1]` computes `r` groups of `c` tokens.
pub(crate) type Tiles<const R: usize, const C: usize> = [[Tile; C]; R];

/// The body of a [`Tile`] of `R` groups and `C` tokens.
#[inline(always)]
pub(crate) fn tile<T: Vectors, K: Kernel<T>, const R: usize, const C: usize>(t: T, job: &Job<'_, '_>) {
    let Job { args, group, tile, token } = *job;
    let parts = const { STRIP_ROWS / T::ROWS };
    let mut blocks: [&[K::Block]; R] = [&[]; R];
    for (r, blocks) in blocks.iter_mut().enumerate() {
        *blocks = bytemuck::cast_slice(args.w.strip((group + r) / parts));
    }
    let (width, records) = args.x.tile_records(tile);
    let mut acc = [[t.zero(); C]; R];
    let mut records: &[K::Record] = bytemuck::cast_slice(records);
    #[allow(clippy::needless_range_loop, reason = "one index counts in several strips")]
    for b in 0..args.w.blocks() {
        let (now, later) = records.split_at(width);
        let Some(x) = now[token..].first_chunk::<C>() else { unreachable!("the tile has these tokens") };
        records = later;
        for r in 0..R {
            K::block(t, &blocks[r][b], (group + r) % parts, x, &mut acc[r]);
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let row = (group + r) * T::ROWS;
        let rows = T::ROWS.min(args.w.m().saturating_sub(row));
        for (c, &acc) in acc.iter().enumerate() {
            let mut values = [0.0; STRIP_ROWS];
            t.store(acc, &mut values);
            let token = tile * args.x.tile() + token + c;
            // Of two branches the first has a length that the compiler knows.
            if rows == T::ROWS {
                args.out.store(token, row, &values[..T::ROWS]);
            } else if rows > 0 {
                args.out.store(token, row, &values[..rows]);
            }
        }
    }
}

/// Runs a kernel on all of its arguments.
///
/// # Safety
/// - The tiles may run on this machine.
///
/// # Panics
/// If [`GemmArgs::check`] fails or the weights have another format.
pub(crate) unsafe fn run<T: Vectors, K: Kernel<T>, const R: usize, const C: usize>(
    args: &GemmArgs<'_>,
    tiles: &Tiles<R, C>,
) {
    if let Err(error) = args.check() {
        panic!("{error}");
    }
    assert_eq!((args.w.format(), args.w.layout()), (K::FORMAT, Layout::Strip16x4), "weights of this kernel");
    let strip_bytes = args.w.blocks() * size_of::<K::Block>();
    let resident = (RESIDENT / strip_bytes.max(1)).max(1);
    let parts = STRIP_ROWS / T::ROWS;
    let mut first = args.strips.start;
    while first < args.strips.end {
        let end = args.strips.end.min(first + resident.max(R));
        for tile in args.tiles.clone() {
            let (width, _) = args.x.tile_records(tile);
            for group in (first * parts..end * parts).step_by(R) {
                let groups = R.min(end * parts - group);
                for token in (0..width).step_by(C) {
                    let tokens = C.min(width - token);
                    // SAFETY: promised by the caller.
                    unsafe { tiles[groups - 1][tokens - 1](&Job { args, group, tile, token }) };
                }
            }
        }
        first = end;
    }
}
