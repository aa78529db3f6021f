//! Tests of what the files of this module share. The reference rows are those of `tests/fixtures/blocks`.

use cera_testkit::fixtures::Fixture;
use proptest::prelude::*;

use super::*;

mod codes;
mod dequant;
mod quantize;

/// The reference rows of a format.
fn reference(format: Format) -> Fixture {
    Fixture::open(&format!("blocks/blocks_{format}.safetensors"))
}

/// Dequantizes bytes that are known to be whole blocks.
fn dequantized(format: Format, bytes: &[u8]) -> Vec<f32> {
    let mut row = vec![f32::NAN; bytes.len() / format.block_bytes() * format.block_len()];
    dequantize_row(format, bytes, &mut row).unwrap();
    row
}

#[test]
fn any_offset_can_be_read_as_blocks() {
    let bytes: Vec<u8> = (0..200).collect();
    for offset in 0..9 {
        let blocks = cast_blocks::<BlockQ4_1>(&bytes[offset..offset + 60]).unwrap();
        let starts: Vec<u8> = blocks.iter().map(|block| block.d.0[0]).collect();
        assert_eq!(starts, [0, 20, 40].map(|start| start + offset as u8));
        assert_eq!(blocks[2].qs[15] as usize, offset + 59);
    }
}

#[test]
fn part_of_a_block_is_refused() {
    let mut bytes = [0; 40];
    let refused = |got| QuantError::ShapeMismatch { what: "bytes of whole blocks", expected: 18, got };
    for got in [19, 35] {
        assert_eq!(cast_blocks::<BlockQ4_0>(&bytes[..got]), Err(refused(got)));
        assert_eq!(cast_blocks_mut::<BlockQ4_0>(&mut bytes[..got]), Err(refused(got)));
    }
    assert_eq!(cast_blocks_mut::<BlockQ4_0>(&mut bytes[..36]).unwrap().len(), 2);
    assert!(cast_blocks::<BlockQ4_0>(&[]).unwrap().is_empty());
}
