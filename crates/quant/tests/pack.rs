//! Packing against the layout formulas of `pack` and against the bytes of the file.

use cera_quant::blocks::{self, Block, cast_blocks};
use cera_quant::pack::{
    PackedRef, STRIP_ROWS, pack, pack_first_strip, pack_strip, packed_bytes, strip_block_bytes, strip_bytes,
};
use cera_quant::{Format, QuantError};
use cera_testkit::rng::Rng;
use proptest::prelude::*;

/// The row that extraction is to give: the packed one, with small `BF16` magnitudes as zeros.
fn kept(format: Format, row: &[u8]) -> Vec<u8> {
    let flush = |bytes: &[u8; 2]| {
        let magnitude = half::bf16::from_le_bytes(*bytes).to_f32().abs();
        if magnitude < 1.0 / (1u64 << 55) as f32 { [0, bytes[1] & 0x80] } else { *bytes }
    };
    match format {
        Format::BF16 => row.as_chunks().0.iter().flat_map(flush).collect(),
        _ => row.to_vec(),
    }
}

/// Packs rows and lists what does not come back.
fn round_trip(format: Format, (m, k): (usize, usize), rows: &[u8]) -> Result<(), String> {
    let mut packed = vec![0xa5; packed_bytes(format, m, k).expect("size")];
    pack(format, (m, k), rows, &mut packed).expect("shapes");
    let packed = PackedRef::new(format, m, k, &packed).expect("shapes");
    let size = packed.row_bytes();
    let wrong: Vec<usize> = (0..m)
        .filter(|&r| {
            let mut row = vec![0xa5; size];
            packed.extract_row(r, &mut row).expect("shapes");
            row != kept(format, &rows[r * size..(r + 1) * size])
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("{format} {m} x {k}: rows {wrong:?}")) }
}

/// Row lengths to try: none, one, and some blocks; for `BF16` with a missing odd element too.
fn lengths(format: Format) -> Vec<usize> {
    let block = format.block_len();
    let blocks = if block == 1 { &[0, 1, 2, 3, 64, 127, 128, 129, 257][..] } else { &[0, 1, 2, 3][..] };
    blocks.iter().map(|n| n * block).collect()
}

#[test]
fn every_row_comes_back() {
    let mut rng = Rng::new(1);
    let mut failures = Vec::new();
    for format in Format::ALL {
        for k in lengths(format) {
            for m in 0..=33 {
                let rows = rng.bytes(m * format.row_bytes(k).expect("whole blocks"));
                failures.extend(round_trip(format, (m, k), &rows).err());
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

proptest! {
    #[test]
    fn any_bytes_come_back(f in 0..Format::COUNT, m in 1usize..40, blocks in 1usize..4, seed: u64) {
        let format = Format::ALL[f];
        let k = blocks * format.block_len();
        let rows = Rng::new(seed).bytes(m * format.row_bytes(k).expect("whole blocks"));
        prop_assert_eq!(round_trip(format, (m, k), &rows), Ok(()));
    }
}

/// The scales of a row in a block of the file, in the order of the packed layout.
fn heads(format: Format, block: &[u8]) -> Vec<&[u8]> {
    let at = |fields: &[(usize, usize)]| fields.iter().map(|&(at, len)| &block[at..at + len]).collect();
    match format {
        Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::IQ4_NL => at(&[(0, 2)]),
        Format::Q4_1 | Format::Q5_1 => at(&[(0, 2), (2, 2)]),
        Format::MXFP4 => at(&[(0, 1)]),
        Format::Q2_K => at(&[(80, 2), (82, 2), (0, 16)]),
        Format::Q3_K => at(&[(108, 2), (96, 12)]),
        Format::Q4_K | Format::Q5_K => at(&[(0, 2), (2, 2), (4, 12)]),
        Format::Q6_K => at(&[(208, 2), (192, 16)]),
        Format::IQ4_XS => at(&[(0, 2), (2, 2), (4, 4)]),
        Format::F32 | Format::F16 | Format::BF16 => unreachable!("plain floats"),
    }
}

fn only<B: Block>(bytes: &[u8]) -> &B {
    &cast_blocks(bytes).expect("a block")[0]
}

/// The code of element `e` of a block of the file, from the formulas of the block structs.
fn code(format: Format, block: &[u8], e: usize) -> u8 {
    let nibble = |byte: u8, half: usize| (byte >> (4 * half)) & 15;
    let pair = |byte: u8, j: usize| (byte >> (2 * j)) & 3;
    let bit = |byte: u8, i: usize| (byte >> i) & 1;
    let (l, half, run, j) = (e % 32, e / 16 % 2, 32 * (e / 128), e / 32 % 4);
    match format {
        Format::Q4_0 => nibble(only::<blocks::BlockQ4_0>(block).qs[e % 16], half),
        Format::Q4_1 => nibble(only::<blocks::BlockQ4_1>(block).qs[e % 16], half),
        Format::IQ4_NL => nibble(only::<blocks::BlockIq4Nl>(block).qs[e % 16], half),
        Format::MXFP4 => nibble(only::<blocks::BlockMxfp4>(block).qs[e % 16], half),
        Format::Q5_0 => {
            let block = only::<blocks::BlockQ5_0>(block);
            nibble(block.qs[e % 16], half) + 16 * bit(block.qh[e / 8], e % 8)
        }
        Format::Q5_1 => {
            let block = only::<blocks::BlockQ5_1>(block);
            nibble(block.qs[e % 16], half) + 16 * bit(block.qh[e / 8], e % 8)
        }
        Format::Q8_0 => only::<blocks::BlockQ8_0>(block).qs[e] as u8,
        Format::Q2_K => pair(only::<blocks::BlockQ2K>(block).qs[run + l], j),
        Format::Q3_K => {
            let block = only::<blocks::BlockQ3K>(block);
            pair(block.qs[run + l], j) + 4 * bit(block.hmask[l], e / 32)
        }
        Format::Q4_K => nibble(only::<blocks::BlockQ4K>(block).qs[32 * (e / 64) + l], e / 32 % 2),
        Format::Q5_K => {
            let block = only::<blocks::BlockQ5K>(block);
            nibble(block.qs[32 * (e / 64) + l], e / 32 % 2) + 16 * bit(block.qh[l], e / 32)
        }
        Format::Q6_K => {
            let block = only::<blocks::BlockQ6K>(block);
            nibble(block.ql[64 * (e / 128) + e % 64], e / 64 % 2) + 16 * pair(block.qh[run + l], j)
        }
        Format::IQ4_XS => nibble(only::<blocks::BlockIq4Xs>(block).qs[16 * (e / 32) + e % 16], half),
        Format::F32 | Format::F16 | Format::BF16 => unreachable!("plain floats"),
    }
}

/// The forms of the codes of 32 elements, in their order: vectors, and the lowest bit of the code that each holds.
fn forms(format: Format) -> &'static [(usize, usize)] {
    match format {
        Format::Q8_0 => &[(8, 0)],
        Format::Q2_K => &[(2, 0)],
        Format::Q3_K => &[(2, 0), (1, 2)],
        Format::Q5_0 | Format::Q5_1 | Format::Q5_K => &[(4, 0), (1, 4)],
        Format::Q6_K => &[(4, 0), (2, 4)],
        _ => &[(4, 0)],
    }
}

/// The packed bits of code `q[e]` of row `r` in a form of so many vectors: the formulas of the module, element by
/// element.
fn stored(vectors: usize, bytes: &[u8], r: usize, e: usize) -> u8 {
    let i = e % 4;
    match vectors {
        1 => (bytes[4 * r + i] >> (e / 4)) & 1,
        2 => (bytes[64 * (e / 16) + 4 * r + i] >> (2 * (e / 4 % 4))) & 3,
        4 => (bytes[64 * (e % 16 / 4) + 4 * r + i] >> (4 * (e / 16))) & 15,
        _ => bytes[64 * (e / 4) + 4 * r + i],
    }
}

#[test]
fn blocks_are_stored_as_the_formulas_say() {
    let mut rng = Rng::new(2);
    for format in Format::ALL.into_iter().filter(|f| f.block_len() > 1) {
        let (block, size) = (format.block_len(), format.block_bytes());
        let rows = rng.bytes(STRIP_ROWS * size);
        let mut packed = vec![0xa5; strip_bytes(format, block).expect("size")];
        pack_strip(format, block, &rows, &mut packed).expect("shapes");
        for (r, row) in rows.chunks_exact(size).enumerate() {
            let mut rest = &packed[..];
            for head in heads(format, row) {
                let unit = head.len().min(4);
                for (u, bytes) in head.chunks_exact(unit).enumerate() {
                    let at = unit * (16 * u + r);
                    assert_eq!(bytes, &rest[at..at + unit], "{format} row {r}");
                }
                rest = &rest[16 * head.len()..];
            }
            for group in 0..block / 32 {
                let mut codes = [0; 32];
                for &(vectors, shift) in forms(format) {
                    for (e, code) in codes.iter_mut().enumerate() {
                        *code |= stored(vectors, rest, r, e) << shift;
                    }
                    rest = &rest[64 * vectors..];
                }
                let expected: Vec<u8> = (0..32).map(|e| code(format, row, 32 * group + e)).collect();
                assert_eq!(codes[..], expected, "{format} row {r} group {group}");
            }
            assert!(rest.is_empty(), "{format}: {} bytes more", rest.len());
        }
    }
}

#[test]
fn floats_are_stored_element_by_element() {
    for (format, unit) in [(Format::F32, 4), (Format::F16, 2), (Format::BF16, 4)] {
        let k = 301;
        let row = format.row_bytes(k).expect("floats");
        // Every element is a normal number above 2^-55 in each format.
        let rows: Vec<u8> = Rng::new(3).bytes(STRIP_ROWS * row).iter().map(|b| b & 0x3f | 0x30).collect();
        let mut packed = vec![0xa5; strip_bytes(format, k).expect("size")];
        pack_strip(format, k, &rows, &mut packed).expect("shapes");
        for (r, row) in rows.chunks_exact(row).enumerate() {
            let mut expected = row.to_vec();
            expected.resize(row.len().next_multiple_of(unit), 0);
            for (u, bytes) in expected.chunks_exact(unit).enumerate() {
                let at = unit * (16 * u + r);
                assert_eq!(bytes, &packed[at..at + unit], "{format} row {r} unit {u}");
            }
        }
    }
}

#[test]
fn small_bf16_become_zeros_of_their_sign() {
    let values: [(u16, u16); 8] = [
        (0x0000, 0x0000),
        (0x8000, 0x8000),
        (0x0001, 0x0000),
        (0x8001, 0x8000),
        (72 << 7, 72 << 7),
        ((72 << 7) - 1, 0x0000),
        (0x8000 | ((72 << 7) - 1), 0x8000),
        (0x7fc1, 0x7fc1),
    ];
    let row: Vec<u8> = values.iter().flat_map(|(w, _)| w.to_le_bytes()).collect();
    let mut packed = vec![0xa5; strip_bytes(Format::BF16, 8).expect("size")];
    pack_strip(Format::BF16, 8, &row, &mut packed).expect("shapes");
    let mut back = vec![0; row.len()];
    let packed = PackedRef::new(Format::BF16, 1, 8, &packed).expect("shapes");
    packed.extract_row(0, &mut back).expect("shapes");
    let expected: Vec<u8> = values.iter().flat_map(|(_, w)| w.to_le_bytes()).collect();
    assert_eq!(back, expected);
}

#[test]
fn missing_rows_are_zero_bytes() {
    for format in Format::ALL {
        let k = format.block_len();
        let row = format.row_bytes(k).expect("a block");
        for m in 1..=16 {
            let mut part = vec![0xa5; strip_bytes(format, k).expect("size")];
            let mut whole = part.clone();
            let mut rows = Rng::new(m as u64).bytes(m * row);
            pack_strip(format, k, &rows, &mut part).expect("shapes");
            rows.resize(16 * row, 0);
            pack_strip(format, k, &rows, &mut whole).expect("shapes");
            assert_eq!(part, whole, "{format} {m}");
        }
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let format = Format::Q4_0;
    let size = strip_bytes(format, 64).expect("size");
    assert_eq!(size, 2 * strip_block_bytes(format));
    let mut out = vec![0xa5; size + 1];
    let shape = |what, expected, got| Err::<(), _>(QuantError::ShapeMismatch { what, expected, got });
    let mut strip = |k, rows: usize, len: usize| pack_strip(format, k, &vec![0; rows], &mut out[..len]);
    assert_eq!(strip(63, 36, size), Err(QuantError::PartialBlock { format, k: 63, block: 32 }));
    assert_eq!(strip(64, 36, size + 1), shape("bytes of a packed strip", size, size + 1));
    assert_eq!(strip(64, 0, size), shape("bytes of weight rows", 36, 0));
    assert_eq!(strip(64, 35, size), shape("bytes of weight rows", 36, 35));
    assert_eq!(strip(64, 37, size), shape("bytes of weight rows", 72, 37));
    assert_eq!(strip(64, 17 * 36, size), shape("bytes of weight rows", 16 * 36, 17 * 36));
    assert_eq!(strip(0, 1, 0), shape("bytes of weight rows", 0, 1));
    assert_eq!(strip(64, 16 * 36, size), Ok(()));
    assert_eq!(strip(64, 36, size), Ok(()));
    let huge = usize::MAX / 32 * 32;
    assert!(matches!(strip(huge, 36, size), Err(QuantError::TooLarge { .. })));

    let mut whole = |m, rows: usize, len: usize| pack(format, (m, 64), &vec![0; rows], &mut out[..len]);
    assert_eq!(whole(2, 36, size), shape("bytes of weights", 72, 36));
    assert_eq!(whole(2, 72, size - 1), shape("bytes of a packed matrix", size, size - 1));
    assert_eq!(whole(2, 72, size), Ok(()));

    let packed = PackedRef::new(format, 2, 64, &out[..size]).expect("shapes");
    let mut row = [0; 37];
    assert_eq!(packed.extract_row(1, &mut row[..35]), shape("bytes of a weight row", 36, 35));
    let range = QuantError::OutOfRange { what: "row of a packed matrix", end: 3, len: 2 };
    assert_eq!(packed.extract_row(2, &mut row[..36]), Err(range));
    assert_eq!(packed.extract_row(1, &mut row[..36]), Ok(()));
}

#[test]
fn strips_of_a_matrix_are_packed_one_at_a_time() {
    for format in Format::ALL {
        let (m, k) = (35, 2 * format.block_len());
        let row = format.row_bytes(k).expect("whole blocks");
        let rows: Vec<u8> = (0..m * row).map(|i| (i * 31 % 241) as u8).collect();
        let mut whole = vec![0; packed_bytes(format, m, k).expect("a size")];
        pack(format, (m, k), &rows, &mut whole).expect("shapes");
        for (s, expected) in whole.chunks_exact(strip_bytes(format, k).expect("a size")).enumerate() {
            let mut strip = vec![1; expected.len()];
            pack_first_strip(format, (m, k), &rows, s..3, &mut strip).expect("shapes");
            assert!(strip == expected, "{format}, strip {s}");
        }
        let mut strip = vec![0; whole.len() / 3];
        for strips in [3..4, 0..4, 1..1] {
            assert!(pack_first_strip(format, (m, k), &rows, strips, &mut strip).is_err());
        }
    }
}
