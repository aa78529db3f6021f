//! Matrix kernels over packed strips, written once for the vectors of every tier.
//!
//! A vector lane is a weight row. A *group* is the rows of one vector: a strip, or a part of it where vectors are
//! shorter. A kernel keeps the sums of `R` groups and `C` tokens in registers for all of k, so that every result is
//! one chain; formats say how their codes and scales unpack ([`by32`], [`by256`]), and tiers how sums of products are
//! formed.

pub mod by256;
pub mod by32;
pub mod floats;
pub mod records;
pub mod vectors;

use std::cell::RefCell;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::pack::{Layout, STRIP_ROWS};

use self::vectors::{Vectors, prefetch};

/// Bytes of weights that are worked on, tile after tile of activations, before the next ones: they stay in the
/// second-level cache while the activations stream past.
const RESIDENT: usize = 320 << 10;

/// Tokens from which on strips are unpacked beforehand.
const UNPACK_FROM: usize = 32;

/// A block of each of some groups of rows, and which part of it the group is. Where so many groups divide a strip, they are
/// parts of one block that follow each other.
pub type Blocks<'a, B, const R: usize> = [(&'a B, usize); R];

/// A sum for each of some groups of rows and tokens.
pub type Sums<N, const R: usize, const C: usize> = [[N; C]; R];

/// A format's block of a strip times the records of some tokens, on the vectors of a tier.
pub trait Kernel<T: Vectors> {
    /// The format of the weights.
    const FORMAT: Format;
    /// A block of a strip.
    type Block: Pod;
    /// The activations of one token that a block meets.
    type Record: Pod;

    /// Adds the products of a part of each of some blocks with each record to the sums of that group and token.
    fn blocks<const R: usize, const C: usize>(
        t: T,
        blocks: Blocks<'_, Self::Block, R>,
        x: &[Self::Record; C],
        acc: &mut Sums<T::F, R, C>,
    );

    /// Brings sums that are kept in another arrangement to that of rows in lanes, at the end.
    #[inline(always)]
    fn finish<const R: usize, const C: usize>(_t: T, _acc: &mut Sums<T::F, R, C>) {}
}

/// A [`Kernel`] whose blocks may be unpacked beforehand, which pays where many tokens meet them.
pub trait Unpack<T: Vectors>: Kernel<T> {
    /// The kernel of unpacked blocks.
    type Unpacked: Wide<T, Self>;
}

/// The kernel of the blocks of `K`, unpacked.
pub trait Wide<T: Vectors, K: Kernel<T> + ?Sized>: Kernel<T> {
    /// Whether the records of the tokens of a tile are arranged beforehand.
    const ARRANGES: bool = false;

    /// Unpacks a part of a block.
    fn unpack(t: T, block: &K::Block, part: usize, out: &mut Self::Block);

    /// The records of the tokens of a tile as this kernel reads them, where they are arranged.
    #[inline(always)]
    fn arrange<const C: usize>(_t: T, _x: &[K::Record; C]) -> [Self::Record; C] {
        unreachable!("the records are read as they are")
    }
}

/// Groups times tokens that one register tile computes.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a, 'b> {
    args: &'a GemmArgs<'b>,
    /// Strips as the kernel reads them, one after the other.
    strips: &'a [u8],
    /// The first group of rows in `strips`.
    group: usize,
    /// The first row of that group in the matrix.
    row: usize,
    /// The columns.
    columns: Columns<'a>,
}

/// Tokens from some token of a column tile on.
#[derive(Debug, Clone, Copy)]
struct Columns<'a> {
    /// The records of the column tile.
    records: &'a [u8],
    /// Tokens of the column tile.
    width: usize,
    /// The token in the column tile.
    token: usize,
    /// The first token of the column tile.
    first: usize,
}

/// Computes a [`Job`].
pub type Tile = for<'a, 'b> unsafe fn(&Job<'a, 'b>);

/// The register tiles of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Tiles<const R: usize, const C: usize> {
    /// Groups of rows of the widest. Those of all matrices are a multiple of it, or of a divisor of it with tiles of its own.
    pub groups: usize,
    /// `tiles[r][c]` computes `groups - (R - 1) + r` groups of `c + 1` tokens.
    pub tiles: [[Tile; C]; R],
}

/// The body of a [`Tile`] of `R` groups and `C` tokens.
#[inline(always)]
pub fn tile<T: Vectors, K: Kernel<T>, const R: usize, const C: usize>(t: T, job: &Job<'_, '_>) {
    t.align_frame();
    let Job { args, strips, group, row, columns: Columns { records, width, token, first } } = *job;
    let parts = const { STRIP_ROWS / T::ROWS };
    let kb = args.w.blocks();
    let strips: &[K::Block] = bytemuck::cast_slice(strips);
    // A tile that divides a strip lies in one, and the compiler shall know it: one address leads to all of its groups.
    let one = const { STRIP_ROWS.is_multiple_of(T::ROWS * R) };
    let first_part = group % parts;
    debug_assert!(!one || group.is_multiple_of(R), "group {group} begins a tile");
    let mut blocks: [&[K::Block]; R] = [&[]; R];
    for (r, blocks) in blocks.iter_mut().enumerate() {
        *blocks = &strips[(group + r) / parts * kb..][..kb];
    }
    let mut acc = [[t.zero(); C]; R];
    let mut records: &[K::Record] = bytemuck::cast_slice(records);
    #[allow(clippy::needless_range_loop, reason = "one index counts in several strips")]
    for b in 0..kb {
        let (records_now, later) = records.split_at(width);
        let Some(x) = records_now[token..].first_chunk::<C>() else {
            unreachable!("the tile has these tokens")
        };
        records = later;
        let mut now = [(&blocks[0][b], first_part); R];
        unrolled!(r < R {
            now[r] = if one {
                (&blocks[0][b], first_part + r)
            } else {
                (&blocks[r][b], (group + r) % parts)
            };
        });
        K::blocks(t, now, x, &mut acc);
    }
    K::finish(t, &mut acc);
    let m = args.w.m();
    if row + R * T::ROWS <= m {
        unrolled!(c < C {
            unrolled!(r < R {
                let mut values = [0.0; STRIP_ROWS];
                t.store(acc[r][c], &mut values);
                args.out.store(first + token + c, row + r * T::ROWS, &values[..T::ROWS]);
            });
        });
        return;
    }
    for (r, acc) in acc.iter().enumerate() {
        let row = row + r * T::ROWS;
        let rows = T::ROWS.min(m.saturating_sub(row));
        for (c, &acc) in acc.iter().enumerate() {
            let mut values = [0.0; STRIP_ROWS];
            t.store(acc, &mut values);
            if rows > 0 {
                args.out.store(first + token + c, row, &values[..rows]);
            }
        }
    }
}

/// Unpacks all parts of the blocks of some strips.
#[inline(always)]
pub fn unpack<T: Vectors, K: Unpack<T>>(t: T, strips: &[u8], out: &mut [u8]) {
    t.align_frame();
    let blocks: &[K::Block] = bytemuck::cast_slice(strips);
    let out: &mut [<K::Unpacked as Kernel<T>>::Block] = bytemuck::cast_slice_mut(out);
    for (block, out) in blocks.iter().zip(out) {
        for part in 0..STRIP_ROWS / T::ROWS {
            K::Unpacked::unpack(t, block, part, out);
        }
    }
}

/// Arranges the records of `C` tokens of a column tile, block after block: `token` is the first of them, `width` the
/// tokens of the column tile.
#[inline(always)]
pub fn arrange<T: Vectors, K: Unpack<T>, const C: usize>(
    t: T,
    records: &[u8],
    (width, token): (usize, usize),
    out: &mut [u8],
) {
    let records: &[K::Record] = bytemuck::cast_slice(records);
    let out: &mut [<K::Unpacked as Kernel<T>>::Record] = bytemuck::cast_slice_mut(out);
    for (x, out) in records.chunks_exact(width).zip(out.as_chunks_mut::<C>().0) {
        let Some(x) = x[token..].first_chunk::<C>() else { unreachable!("the tile has these tokens") };
        *out = K::Unpacked::arrange(t, x);
    }
}

/// How a kernel works on unpacked blocks.
#[derive(Debug, Clone, Copy)]
pub struct Unpacked {
    /// Unpacks strips.
    pub unpack: unsafe fn(&[u8], &mut [u8]),
    /// Bytes of an unpacked block.
    pub block_bytes: usize,
    /// Arranges records, as [`arrange`], if the tile needs it.
    pub arrange: Option<Arrange>,
    /// Bytes of an arranged record.
    pub record_bytes: usize,
    /// The register tile.
    pub tile: Tile,
    /// Groups and tokens of the register tile.
    pub shape: (usize, usize),
}

/// Arranges the records of a tile: those of a column tile, its tokens and the first of the tile, and the arranged ones.
pub type Arrange = unsafe fn(&[u8], (usize, usize), &mut [u8]);

thread_local! {
    /// The unpacked strips of a worker, and the arranged records.
    static UNPACKED: RefCell<[Vec<Line>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// The first bytes of memory that grows as needed.
fn first_bytes(memory: &mut Vec<Line>, bytes: usize) -> &mut [u8] {
    if memory.len() < bytes.div_ceil(64) {
        memory.resize(bytes.div_ceil(64), Line::zeroed());
    }
    &mut bytemuck::cast_slice_mut(memory)[..bytes]
}

/// A line of the caches.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Runs a kernel on all of its arguments.
///
/// # Safety
/// - The tiles may run on this machine, and so may what works on unpacked blocks.
///
/// # Panics
/// If [`GemmArgs::check`] fails or the weights have another format.
pub unsafe fn run<T: Vectors, K: Kernel<T>, const R: usize, const C: usize>(
    t: T,
    args: &GemmArgs<'_>,
    tiles: &Tiles<R, C>,
    unpacked: Option<Unpacked>,
) {
    if let Err(error) = args.check() {
        panic!("{error}");
    }
    assert_eq!((args.w.format(), args.w.layout()), (K::FORMAT, Layout::Strip16x4), "weights of this kernel");
    let tokens = args.tiles.len() * args.x.tile();
    let unpacked = unpacked.filter(|unpacked| {
        tokens >= UNPACK_FROM && args.x.tile() >= unpacked.shape.1 && unpacked.block_bytes > 0
    });
    let packed_bytes = args.w.blocks() * size_of::<K::Block>();
    let strip_bytes =
        args.w.blocks() * unpacked.map_or(size_of::<K::Block>(), |unpacked| unpacked.block_bytes);
    let groups = unpacked.map_or(tiles.groups, |unpacked| unpacked.shape.0);
    let resident = (RESIDENT / strip_bytes.max(1) / groups * groups).max(groups);
    UNPACKED.with_borrow_mut(|[memory, arranged]| {
        let mut first = args.strips.start;
        while first < args.strips.end {
            let strips = first..args.strips.end.min(first + resident);
            first = strips.end;
            let packed = &args.w.bytes()[strips.start * packed_bytes..strips.end * packed_bytes];
            let panels = unpacked.map(|unpacked| {
                let panels = first_bytes(memory, strips.len() * strip_bytes);
                // SAFETY: promised by the caller.
                unsafe { (unpacked.unpack)(packed, panels) };
                (unpacked, &*panels, &mut *arranged)
            });
            // SAFETY: promised by the caller.
            unsafe { run_strips(t, args, (&strips, packed), tiles, panels) };
        }
    });
}

/// Computes some strips, of which `packed` are the blocks, for all tokens: with the tile of unpacked blocks where it fits.
///
/// # Safety
/// As [`run`].
unsafe fn run_strips<T: Vectors, const R: usize, const C: usize>(
    t: T,
    args: &GemmArgs<'_>,
    (range, packed): (&Range<usize>, &[u8]),
    tiles: &Tiles<R, C>,
    mut panels: Option<(Unpacked, &[u8], &mut Vec<Line>)>,
) {
    let all = range.len() * (STRIP_ROWS / T::ROWS);
    // The strips that come next are fetched bit by bit, to be in the caches when these are done.
    let steps =
        panels.as_ref().map_or(1, |(unpacked, ..)| args.tiles.len() * (args.x.tile() / unpacked.shape.1));
    let mut next = packed.chunks(packed.len().div_ceil(steps).max(1));
    for tile in args.tiles.clone() {
        let (width, records) = args.x.tile_records(tile);
        let all_columns = Columns { records, width, token: 0, first: tile * args.x.tile() };
        let run = |run: Tile, strips: &[u8], group, columns: Columns<'_>| {
            let row = range.start * STRIP_ROWS + group * T::ROWS;
            // SAFETY: promised by the caller.
            unsafe { run(&Job { args, strips, group, row, columns }) };
        };
        let (mut wide_groups, mut wide_tokens) = (0, 0);
        if let Some((unpacked, panels, memory)) = &mut panels {
            let (groups, tokens) = unpacked.shape;
            (wide_groups, wide_tokens) = (all / groups * groups, width / tokens * tokens);
            for token in (0..wide_tokens).step_by(tokens) {
                next.next().into_iter().for_each(|next| prefetch(t, next, packed.len()));
                let mut columns = Columns { token, ..all_columns };
                if let Some(arrange) = unpacked.arrange {
                    let records = first_bytes(memory, args.w.blocks() * tokens * unpacked.record_bytes);
                    // SAFETY: promised by the caller.
                    unsafe { arrange(columns.records, (width, token), records) };
                    let first = all_columns.first + token;
                    columns = Columns { records, width: tokens, token: 0, first };
                }
                for group in (0..wide_groups).step_by(groups) {
                    run(unpacked.tile, panels, group, columns);
                }
            }
        }
        // What that tile leaves: groups of its tokens, and tokens of all groups.
        for (groups, tokens) in [(wide_groups..all, 0..wide_tokens), (0..all, wide_tokens..width)] {
            cover(groups, tokens, tiles, |tile, group, token| {
                run(tile, packed, group, Columns { token, ..all_columns });
            });
        }
    }
}

/// Runs the tiles that cover some groups of rows and tokens: group after group, so that each strip is read once.
fn cover<const R: usize, const C: usize>(
    groups: Range<usize>,
    tokens: Range<usize>,
    tiles: &Tiles<R, C>,
    run: impl Fn(Tile, usize, usize),
) {
    if tokens.is_empty() {
        return;
    }
    // Tokens are shared out evenly, so that no register tile is much narrower than the others.
    let step = tokens.len().div_ceil(tokens.len().div_ceil(C));
    for group in groups.clone().step_by(tiles.groups) {
        let missing = tiles.groups - tiles.groups.min(groups.end - group);
        for token in tokens.clone().step_by(step) {
            run(tiles.tiles[R - 1 - missing][step.min(tokens.end - token) - 1], group, token);
        }
    }
}
