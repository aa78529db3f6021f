//! Packing of formats with blocks, compiled for each format, so that all offsets and shifts are constants.

use super::ahead::fetch_piece;
use super::fields::Fields;
use super::quad::QUAD_ROWS;
use super::{STRIP_ROWS, VECTOR, strip_block_bytes};
use crate::Format;

/// [`pack_format`] for the formats that are listed; no others have blocks.
macro_rules! formats {
    ($format:expr, $args:tt; $($name:ident)*) => {
        match $format {
            $(Format::$name => formats!(@call { Format::$name } $args),)*
            Format::F32 | Format::F16 | Format::BF16 => return false,
        }
    };
    (@call $format:block ($($arg:expr),*)) => {
        pack_format::<{ $format.index() }, { $format.block_bytes() }, { strip_block_bytes($format) }>($($arg),*)
    };
}

/// Packs up to 16 rows of `row_bytes` bytes, fetching the bytes `ahead` into the cache meanwhile; false for plain floats,
/// which have no blocks.
pub(super) fn pack_blocks(
    format: Format,
    (rows, ahead): (&[u8], &[u8]),
    row_bytes: usize,
    out: &mut [u8],
) -> bool {
    formats! { format, (rows, ahead, row_bytes, out);
        Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS
    }
    true
}

/// Packs block after block, of all rows, so that the block of the strip stays in the nearest cache. `BLOCK` is the bytes
/// of a block in the file, `STRIP` of one of a strip. Rows past the last are zero bytes.
fn pack_format<const FORMAT: usize, const BLOCK: usize, const STRIP: usize>(
    rows: &[u8],
    ahead: &[u8],
    row_bytes: usize,
    out: &mut [u8],
) {
    let none = &[0; BLOCK];
    for (b, out) in out.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
        fetch_piece(ahead, b, STRIP);
        for (quad, rows) in rows.chunks(QUAD_ROWS * row_bytes).enumerate().take(STRIP_ROWS / QUAD_ROWS) {
            let mut blocks = [none; QUAD_ROWS];
            for (block, row) in blocks.iter_mut().zip(rows.chunks_exact(row_bytes)) {
                *block = row[b * BLOCK..].first_chunk().unwrap_or(none);
            }
            pack_quad::<FORMAT, BLOCK, STRIP>(&blocks, QUAD_ROWS * quad, out);
        }
    }
}

/// Packs a block of each of four rows from row `row`.
#[inline(always)]
fn pack_quad<const FORMAT: usize, const BLOCK: usize, const STRIP: usize>(
    blocks: &[&[u8; BLOCK]; QUAD_ROWS],
    row: usize,
    out: &mut [u8; STRIP],
) {
    let fields = const { Fields::of_blocks(Format::ALL[FORMAT]) };
    let mut at = 0;
    for &head in fields.heads {
        let size = head.unit();
        for unit in 0..head.bytes / size {
            for (i, block) in blocks.iter().enumerate() {
                let (from, to) = (head.at + unit * size, head.unit_at(at, unit, row + i));
                out[to..to + size].copy_from_slice(&block[from..from + size]);
            }
        }
        at += STRIP_ROWS * head.bytes;
    }
    // Code for each group: a loop would leave the shifts to be found at run time.
    const { assert!(Fields::of_blocks(Format::ALL[FORMAT]).groups <= 8) };
    let mut group = |group| {
        if group < fields.groups {
            pack_group(&fields, group, blocks, row, out);
        }
    };
    group(0);
    group(1);
    group(2);
    group(3);
    group(4);
    group(5);
    group(6);
    group(7);
}

/// Packs the codes of one group of four rows from row `row`.
#[inline(always)]
fn pack_group<const BLOCK: usize>(
    fields: &Fields,
    group: usize,
    blocks: &[&[u8; BLOCK]; QUAD_ROWS],
    row: usize,
    out: &mut [u8],
) {
    let mut at = fields.head_bytes() + group * fields.group_bytes();
    for plane in fields.planes {
        let end = at + VECTOR * plane.form.vectors();
        plane.form.put(&plane.read(blocks, group), row, &mut out[at..end]);
        at = end;
    }
}
