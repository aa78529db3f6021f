use super::*;

#[test]
fn reference_rows_are_reproduced() {
    let mut wrong = Vec::new();
    for format in Format::ALL.into_iter().filter(|&format| format != Format::F32) {
        let file = reference(format);
        let (raw, expected) = (file.u8("raw"), file.f32("dequant"));
        assert_eq!((raw.shape[0], expected.shape.as_slice()), (16, [16, 1024].as_slice()), "{format}");
        for (r, (bytes, expected)) in raw.rows().zip(expected.rows()).enumerate() {
            // Equality as floats: the sign of zero is free, NaN is never right.
            let got = dequantized(format, bytes);
            wrong.extend((0..1024).filter(|&e| got[e] != expected[e]).map(|e| (format, r, e)));
        }
    }
    assert!(wrong.is_empty(), "{} elements differ: {:?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

proptest! {
    #[test]
    fn single_precision_keeps_its_bits(bits in proptest::collection::vec(any::<u32>(), 0..40)) {
        let bytes: Vec<u8> = bits.iter().flat_map(|x| x.to_le_bytes()).collect();
        let got: Vec<u32> = dequantized(Format::F32, &bytes).into_iter().map(f32::to_bits).collect();
        prop_assert_eq!(got, bits);
    }
}

#[test]
fn a_row_is_its_blocks() {
    let raw = reference(Format::Q5_K).u8("raw");
    let row = dequantized(Format::Q5_K, raw.row(15));
    for (block, expected) in cast_blocks::<BlockQ5K>(raw.row(15)).unwrap().iter().zip(row.as_chunks().0) {
        assert_eq!(&block.dequantize(), expected);
    }
}

#[test]
fn mxfp4_reaches_the_ends_of_the_exponent() {
    let codes = std::array::from_fn(|j| j as u8 | (15 - j as u8) << 4);
    let weights = |e| BlockMxfp4 { e, qs: codes }.dequantize();
    let smallest = f32::from_bits(1 << 21);
    assert_eq!(weights(0)[..8], [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0].map(|x| x * smallest));
    assert_eq!(weights(1)[7], 24.0 * smallest);
    let largest = f32::from_bits(254 << 23);
    assert_eq!(weights(255)[1..3], [largest, f32::INFINITY]);
    assert_eq!(weights(255)[16], f32::NEG_INFINITY);
    assert_eq!(weights(128)[16], -12.0);
}

#[test]
fn wrong_lengths_are_refused() {
    for format in Format::ALL {
        let (k, size) = (2 * format.block_len(), 2 * format.block_bytes());
        let mut out = vec![f32::NAN; k + 1];
        for got in [0, 1, size - 1, size + 1, size / 2, 2 * size] {
            let error = dequantize_row(format, &vec![0; got], &mut out[..k]).unwrap_err();
            assert_eq!(
                error,
                QuantError::ShapeMismatch { what: "bytes of a row", expected: size, got },
                "{format}"
            );
        }
        if format.block_len() > 1 {
            for k in [k - 1, k + 1] {
                let error = dequantize_row(format, &vec![0; size], &mut out[..k]).unwrap_err();
                assert_eq!(error, QuantError::PartialBlock { format, k, block: format.block_len() });
            }
        }
        assert!(out.iter().all(|x| x.is_nan()), "{format}: written in spite of an error");
        dequantize_row(format, &vec![0; size], &mut out[..k]).unwrap();
        assert!(out[..k].iter().all(|x| !x.is_nan()) && out[k].is_nan(), "{format}");
        dequantize_row(format, &[], &mut []).unwrap();
    }
}
