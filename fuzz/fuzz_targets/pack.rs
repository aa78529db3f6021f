//! Any bytes as rows of a format: packed and extracted they are the same bytes and mean the same weights.
//!
//! The first byte chooses the format, the second the number of rows; the rest is the rows.

#![no_main]

use cera_quant::Format;
use cera_quant::blocks::dequantize_row;
use cera_quant::pack::{PackedRef, STRIP_ROWS, pack, pack_strip, packed_bytes, strip_bytes};
use libfuzzer_sys::fuzz_target;

/// `BF16` magnitudes below 2^-55 are packed as zeros: their exponent field is below 127 - 55.
const SMALLEST_BF16: u16 = (127 - 55) << 7;

fuzz_target!(|bytes: &[u8]| {
    let [format, m, rest @ ..] = bytes else { return };
    let format = Format::ALL[usize::from(*format) % Format::COUNT];
    let m = 1 + usize::from(*m) % (2 * STRIP_ROWS + 2);
    let blocks = rest.len() / (m * format.block_bytes());
    check(format, (m, blocks * format.block_len()), &rest[..m * blocks * format.block_bytes()]);
});

fn check(format: Format, (m, k): (usize, usize), rows: &[u8]) {
    let mut packed = vec![0xaa; packed_bytes(format, m, k).expect("a small size")];
    pack(format, (m, k), rows, &mut packed).expect("a whole number of rows");
    check_strips(format, k, rows, &packed);
    check_refusals(format, (m, k), rows, &mut packed.clone());

    let row_bytes = format.row_bytes(k).expect("a whole number of blocks");
    let matrix = PackedRef::new(format, m, k, &packed).expect("packed bytes");
    let mut extracted = vec![0xaa; row_bytes];
    let (mut weights, mut expected) = (vec![f32::NAN; k], vec![f32::NAN; k]);
    for i in 0..m {
        let row = flushed(format, &rows[i * row_bytes..(i + 1) * row_bytes]);
        matrix.extract_row(i, &mut extracted).expect("a row");
        assert_eq!(extracted, row, "{format}: row {i} of {m}, {k} elements");
        dequantize_row(format, &extracted, &mut weights).expect("a row");
        dequantize_row(format, &row, &mut expected).expect("a row");
        assert!(weights.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    assert!(matrix.extract_row(m, &mut extracted).is_err());

    // Rows past the last are zero bytes.
    let padded = m.next_multiple_of(STRIP_ROWS);
    let matrix = PackedRef::new(format, padded, k, &packed).expect("whole strips");
    for i in m..padded {
        matrix.extract_row(i, &mut extracted).expect("a row of padding");
        assert!(extracted.iter().all(|&byte| byte == 0), "{format}: row {i} of padding");
    }
}

/// A matrix is its strips, one after the other.
fn check_strips(format: Format, k: usize, rows: &[u8], packed: &[u8]) {
    let size = strip_bytes(format, k).expect("a small size");
    let rows_size = STRIP_ROWS * format.row_bytes(k).expect("a whole number of blocks");
    if size == 0 {
        return;
    }
    let mut strip = vec![0x55; size];
    for (rows, expected) in rows.chunks(rows_size).zip(packed.chunks(size)) {
        pack_strip(format, k, rows, &mut strip).expect("rows of a strip");
        assert_eq!(strip, expected);
    }
}

/// Lengths that do not fit are errors.
fn check_refusals(format: Format, (m, k): (usize, usize), rows: &[u8], out: &mut [u8]) {
    assert!(pack(format, (m + STRIP_ROWS, k + format.block_len()), rows, out).is_err());
    assert!(PackedRef::new(format, m + STRIP_ROWS, k + format.block_len(), out).is_err());
    if format.block_len() > 1 {
        assert!(pack(format, (m, k + 1), rows, out).is_err());
    }
    if let Some((_, short)) = out.split_last_mut() {
        assert!(pack(format, (m, k), rows, short).is_err());
    }
}

/// The row as it comes out of a packed matrix.
fn flushed(format: Format, row: &[u8]) -> Vec<u8> {
    let mut row = row.to_vec();
    if format == Format::BF16 {
        for weight in row.chunks_exact_mut(2) {
            let bits = u16::from_le_bytes([weight[0], weight[1]]);
            if bits & 0x7fff < SMALLEST_BF16 {
                weight.copy_from_slice(&(bits & 0x8000).to_le_bytes());
            }
        }
    }
    row
}
