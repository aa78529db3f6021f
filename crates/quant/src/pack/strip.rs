//! Packing strips and reading rows back.

use std::ops::Range;

use super::ahead::fetch_piece;
use super::blocks::pack_blocks;
use super::fields::Fields;
use super::{PackedRef, STRIP_ROWS, strip_block_bytes, strip_bytes};
use crate::num::flush_bf16;
use crate::{Format, QuantError};

/// Bytes of `rows` rows of `k` elements in the file, which fit the address space if the packed form does.
fn file_bytes(format: Format, rows: usize, k: usize) -> Result<usize, QuantError> {
    let row = format.row_bytes(k).ok_or(QuantError::PartialBlock { format, k, block: format.block_len() })?;
    row.checked_mul(rows).ok_or(QuantError::TooLarge { what: "weights", m: rows, k })
}

fn check_len(what: &'static str, expected: usize, got: usize) -> Result<(), QuantError> {
    if expected == got { Ok(()) } else { Err(QuantError::ShapeMismatch { what, expected, got }) }
}

/// Packs a matrix of `m` rows of `k` elements: strip after strip as [`pack_strip`] does.
///
/// Shapes: `rows` are the `m` rows as in the file, one after the other; `out` has [`packed_bytes`] bytes.
///
/// # Errors
/// Those of [`packed_bytes`], and [`QuantError::ShapeMismatch`] if `rows` or `out` has another length.
///
/// [`packed_bytes`]: super::packed_bytes
pub fn pack(format: Format, (m, k): (usize, usize), rows: &[u8], out: &mut [u8]) -> Result<(), QuantError> {
    check_len("bytes of a packed matrix", super::packed_bytes(format, m, k)?, out.len())?;
    check_len("bytes of weights", file_bytes(format, m, k)?, rows.len())?;
    let strip = strip_bytes(format, k)?;
    if strip == 0 {
        return Ok(());
    }
    let strips = m.div_ceil(STRIP_ROWS);
    out.chunks_mut(strip)
        .enumerate()
        .try_for_each(|(s, out)| pack_first_strip(format, (m, k), rows, s..strips, out))
}

/// Packs the first of some strips of a matrix of `m` rows of `k` elements, and fetches the rows of the second, if there is
/// one, into the cache meanwhile.
///
/// Shapes: `rows` are the `m` rows as in the file, one after the other; `out` has [`strip_bytes`] bytes and is written
/// whole: missing rows are zero bytes.
///
/// # Errors
/// Those of [`strip_bytes`], [`QuantError::ShapeMismatch`] if `rows` or `out` has another length, and
/// [`QuantError::OutOfRange`] if there is no such strip.
pub fn pack_first_strip(
    format: Format,
    (m, k): (usize, usize),
    rows: &[u8],
    strips: Range<usize>,
    out: &mut [u8],
) -> Result<(), QuantError> {
    check_len("bytes of weights", file_bytes(format, m, k)?, rows.len())?;
    let (first, len) = (strips.start, m.div_ceil(STRIP_ROWS));
    if first >= strips.end || strips.end > len {
        return Err(QuantError::OutOfRange { what: "strips", end: strips.end.max(first + 1), len });
    }
    let source = file_bytes(format, STRIP_ROWS, k)?;
    let rows_of = |s: usize| &rows[s * source..rows.len().min((s + 1) * source)];
    let ahead = if strips.len() > 1 { rows_of(first + 1) } else { &[] };
    pack_rows(format, k, (rows_of(first), ahead), out)
}

/// Packs one strip.
///
/// Shapes: `rows` are 1 to 16 rows of `k` elements as in the file, one after the other; `out` has [`strip_bytes`]
/// bytes and is written whole: missing rows are zero bytes.
///
/// Every bit of the file is kept, except that `BF16` magnitudes below 2^-55 become zeros of their sign.
///
/// # Errors
/// Those of [`strip_bytes`], and [`QuantError::ShapeMismatch`] if `rows` or `out` has another length.
pub fn pack_strip(format: Format, k: usize, rows: &[u8], out: &mut [u8]) -> Result<(), QuantError> {
    pack_rows(format, k, (rows, &[]), out)
}

/// [`pack_strip`], fetching the bytes `ahead` into the cache meanwhile.
fn pack_rows(
    format: Format,
    k: usize,
    (rows, ahead): (&[u8], &[u8]),
    out: &mut [u8],
) -> Result<(), QuantError> {
    check_len("bytes of a packed strip", strip_bytes(format, k)?, out.len())?;
    let row_bytes = file_bytes(format, 1, k)?;
    if row_bytes == 0 {
        return check_len("bytes of weight rows", 0, rows.len());
    }
    let count = rows.len().div_ceil(row_bytes).clamp(1, STRIP_ROWS);
    check_len("bytes of weight rows", count * row_bytes, rows.len())?;
    if count < STRIP_ROWS {
        out.fill(0);
    }
    if !pack_blocks(format, (rows, ahead), row_bytes, out) {
        pack_floats(format, (rows, ahead), row_bytes, out);
    }
    Ok(())
}

fn extract_block(fields: &Fields, packed: &[u8], row: usize, block: &mut [u8]) {
    block.fill(0);
    let mut at = 0;
    for &head in fields.heads {
        let bytes = &mut block[head.at..head.at + head.bytes];
        for (unit, bytes) in bytes.chunks_exact_mut(head.unit()).enumerate() {
            let from = head.unit_at(at, unit, row);
            bytes.copy_from_slice(&packed[from..from + bytes.len()]);
        }
        at += STRIP_ROWS * head.bytes;
    }
    for group in 0..fields.groups {
        for plane in fields.planes {
            let end = at + super::VECTOR * plane.form.vectors();
            plane.write(&plane.form.get(row, &packed[at..end]), block, group);
            at = end;
        }
    }
}

/// Packs pieces of all rows in turn, so that the piece of the strip stays in the nearest cache.
fn pack_floats(format: Format, (rows, ahead): (&[u8], &[u8]), row_bytes: usize, out: &mut [u8]) {
    const PIECE: usize = 256;
    for (p, out) in out.chunks_mut(STRIP_ROWS * PIECE).enumerate() {
        fetch_piece(ahead, p, STRIP_ROWS * PIECE);
        for (row, bytes) in rows.chunks_exact(row_bytes).enumerate() {
            let piece = &bytes[p * PIECE..row_bytes.min((p + 1) * PIECE)];
            match format {
                Format::BF16 => pack_pairs(piece, row, out),
                Format::F16 => pack_elements::<2>(piece, row, out),
                _ => pack_elements::<4>(piece, row, out),
            }
        }
    }
}

/// The elements, or pairs, of one row in a strip of plain floats.
fn units_mut<const BYTES: usize>(strip: &mut [u8], row: usize) -> impl Iterator<Item = &mut [u8; BYTES]> {
    strip.as_chunks_mut::<BYTES>().0.iter_mut().skip(row).step_by(STRIP_ROWS)
}

fn pack_elements<const BYTES: usize>(bytes: &[u8], row: usize, out: &mut [u8]) {
    for (unit, element) in units_mut::<BYTES>(out, row).zip(bytes.as_chunks::<BYTES>().0) {
        *unit = *element;
    }
}

fn pack_pairs(bytes: &[u8], row: usize, out: &mut [u8]) {
    let flush = |bytes: [u8; 2]| flush_bf16(u16::from_le_bytes(bytes)).to_le_bytes();
    for (unit, pair) in units_mut::<4>(out, row).zip(bytes.chunks(4)) {
        let even = flush([pair[0], pair[1]]);
        let odd = if let [_, _, a, b] = *pair { flush([a, b]) } else { [0; 2] };
        *unit = [even[0], even[1], odd[0], odd[1]];
    }
}

fn extract_elements<const BYTES: usize>(strip: &[u8], row: usize, out: &mut [u8]) {
    let units = strip.as_chunks::<BYTES>().0.iter().skip(row).step_by(STRIP_ROWS);
    for (element, unit) in out.chunks_mut(BYTES).zip(units) {
        element.copy_from_slice(&unit[..element.len()]);
    }
}

impl PackedRef<'_> {
    /// Bytes of a row in the file.
    pub fn row_bytes(&self) -> usize {
        self.k() / self.format().block_len() * self.format().block_bytes()
    }

    /// Writes row `row` as it stands in the file to `out`, of [`PackedRef::row_bytes`] bytes.
    ///
    /// These are the very bytes that were packed, except that `BF16` magnitudes below 2^-55 are zeros of their sign.
    ///
    /// # Errors
    /// [`QuantError::ShapeMismatch`] if `out` has another length or there is no such row.
    pub fn extract_row(&self, row: usize, out: &mut [u8]) -> Result<(), QuantError> {
        if row >= self.m() {
            return Err(QuantError::OutOfRange {
                what: "row of a packed matrix",
                end: row + 1,
                len: self.m(),
            });
        }
        check_len("bytes of a weight row", self.row_bytes(), out.len())?;
        let format = self.format();
        let (strip, row) = (self.strip(row / STRIP_ROWS), row % STRIP_ROWS);
        match (Fields::of(format), format) {
            (Some(fields), _) => {
                let blocks = strip.chunks_exact(strip_block_bytes(format));
                for (packed, block) in blocks.zip(out.chunks_exact_mut(format.block_bytes())) {
                    extract_block(&fields, packed, row, block);
                }
            }
            (None, Format::F16) => extract_elements::<2>(strip, row, out),
            (None, _) => extract_elements::<4>(strip, row, out),
        }
        Ok(())
    }
}
