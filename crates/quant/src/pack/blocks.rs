//! Packing of formats with blocks, compiled for each format, so that all offsets and shifts are constants.

use super::ahead::fetch_piece;
use super::fields::Fields;
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
/// of a block in the file, `STRIP` of one of a strip.
fn pack_format<const FORMAT: usize, const BLOCK: usize, const STRIP: usize>(
    rows: &[u8],
    ahead: &[u8],
    row_bytes: usize,
    out: &mut [u8],
) {
    for (b, out) in out.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
        fetch_piece(ahead, b, STRIP);
        for (row, bytes) in rows.chunks_exact(row_bytes).enumerate().take(STRIP_ROWS) {
            if let Some(block) = bytes[b * BLOCK..].first_chunk::<BLOCK>() {
                pack_block::<FORMAT, BLOCK, STRIP>(block, row, out);
            }
        }
    }
}

#[inline(always)]
fn pack_block<const FORMAT: usize, const BLOCK: usize, const STRIP: usize>(
    block: &[u8; BLOCK],
    row: usize,
    out: &mut [u8; STRIP],
) {
    let fields = const { Fields::of_blocks(Format::ALL[FORMAT]) };
    let mut at = 0;
    for &head in fields.heads {
        let bytes = &block[head.at..head.at + head.bytes];
        for (unit, bytes) in bytes.chunks_exact(head.unit()).enumerate() {
            let to = head.unit_at(at, unit, row);
            out[to..to + bytes.len()].copy_from_slice(bytes);
        }
        at += STRIP_ROWS * head.bytes;
    }
    // Where a format keeps bits of a code apart, code for each group is faster than a loop whose shifts are found at run
    // time; elsewhere it is slower.
    const { assert!(Fields::of_blocks(Format::ALL[FORMAT]).groups <= 8) };
    if fields.planes.len() == 1 {
        (0..fields.groups).for_each(|group| pack_group(&fields, group, block, row, out));
        return;
    }
    let mut group = |group| {
        if group < fields.groups {
            pack_group(&fields, group, block, row, out);
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

/// Packs the codes of one group.
#[inline(always)]
fn pack_group(fields: &Fields, group: usize, block: &[u8], row: usize, out: &mut [u8]) {
    let mut at = fields.head_bytes() + group * fields.group_bytes();
    for plane in fields.planes {
        let end = at + VECTOR * plane.form.vectors();
        plane.form.put(&plane.read(block, group), row, &mut out[at..end]);
        at = end;
    }
}
