use super::*;

/// The formats that [`quantize_row`] knows.
const QUANTIZED: [Format; 6] =
    [Format::F32, Format::F16, Format::BF16, Format::Q4_0, Format::Q4_1, Format::Q8_0];

/// Those of them with a scale per block.
const BLOCKED: [Format; 3] = [Format::Q4_0, Format::Q4_1, Format::Q8_0];

fn quantized(format: Format, row: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0xa5; format.row_bytes(row.len()).unwrap()];
    quantize_row(format, row, &mut bytes).unwrap();
    bytes
}

/// Rounding of a scale to f16: relative, and absolute below the normal range.
fn half_error(x: f64) -> f64 {
    (x.abs() / 2048.0).max(1.0 / f64::from(1 << 25))
}

/// The largest error that the documentation of [`quantize_row`] allows each element of a block.
fn bounds(format: Format, x: &[f32]) -> Vec<f64> {
    let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let extreme = x.iter().fold(0.0_f64, |a, &b| if b.abs() > a.abs() { b } else { a });
    let (min, max) = (x.iter().copied().fold(f64::MAX, f64::min), x.iter().copied().fold(f64::MIN, f64::max));
    let bound = |x: f64| match format {
        Format::Q4_0 => {
            let d = extreme.abs() / 8.0;
            d * if x * extreme < 0.0 { 1.0 } else { 0.5 } + 8.0 * half_error(d)
        }
        Format::Q4_1 => (max - min) / 30.0 + 15.0 * half_error((max - min) / 15.0) + half_error(min),
        _ => extreme.abs() / 254.0 + 127.0 * half_error(extreme / 127.0),
    };
    // A little for the f32 arithmetic on the way.
    x.iter().map(|&e| bound(e) + 2e-6 * extreme.abs().max(max - min)).collect()
}

/// A block of ordinary, one-sided, sparse or far-off-zero values, of any scale that f16 takes.
fn block() -> impl Strategy<Value = Vec<f32>> {
    let values = proptest::collection::vec(-1.0_f32..1.0, 32);
    (values, -40..16_i32, prop_oneof![Just(0.0_f32), Just(1.0), Just(-1.0), Just(60.0)], 1..40_usize)
        .prop_map(|(values, exponent, offset, every)| {
            let scale =
                (0..exponent.abs()).fold(1.0_f32, |s, _| if exponent < 0 { s / 2.0 } else { s * 2.0 });
            let kept = |(e, x): (usize, f32)| if e % every == 0 { x + offset } else { offset };
            values.into_iter().enumerate().map(kept).map(|x| x * scale / 64.0).collect()
        })
}

proptest! {
    #[test]
    fn errors_are_within_the_bound(x in block()) {
        for format in BLOCKED {
            let y = dequantized(format, &quantized(format, &x));
            for (e, bound) in bounds(format, &x).into_iter().enumerate() {
                let error = (f64::from(x[e]) - f64::from(y[e])).abs();
                prop_assert!(error <= bound, "{}: element {} of {:?}: {} > {}", format, e, x, error, bound);
            }
        }
    }

    #[test]
    fn quantizing_again_changes_nothing(x in block()) {
        for format in [Format::Q4_0, Format::Q8_0] {
            let once = dequantized(format, &quantized(format, &x));
            let twice = dequantized(format, &quantized(format, &once));
            prop_assert_eq!(&once, &twice, "{}", format);
        }
    }

    #[test]
    fn halves_are_the_nearest(bits in 0..65504_f32.to_bits(), sign in 0..2_u32) {
        let x = f32::from_bits(bits | sign << 31);
        for format in [Format::F16, Format::BF16] {
            let bytes = quantized(format, &[x]);
            let code = u16::from_le_bytes([bytes[0], bytes[1]]);
            let y = dequantized(format, &bytes)[0];
            let error = (f64::from(x) - f64::from(y)).abs();
            for other in [code.wrapping_sub(1), code.wrapping_add(1)] {
                let z = dequantized(format, &other.to_le_bytes())[0];
                let distance = (f64::from(x) - f64::from(z)).abs();
                prop_assert!(z.is_nan() || error < distance || error == distance && code & 1 == 0);
            }
        }
    }
}

/// What the format's own quantizer made of rows whose values the fixtures' README tells.
#[test]
fn known_rows_give_the_reference_bytes() {
    let alternating = |sign: f32| (0..1024).map(move |e| if e % 2 == 0 { 0.75 * sign } else { -0.75 * sign });
    for format in QUANTIZED.into_iter().filter(|&format| format != Format::F32) {
        let file = reference(format);
        let (raw, dequant) = (file.u8("raw"), file.f32("dequant"));
        assert_eq!(quantized(format, &[0.0; 1024]), raw.row(9), "{format}");
        let row: Vec<f32> = alternating(dequant.row(11)[0].signum()).collect();
        assert_eq!(quantized(format, &row), raw.row(11), "{format}");
        assert_eq!(quantized(format, &[0.3125; 1024]), raw.row(12), "{format}");
    }
}

/// The weights of rows that the format's own quantizer made give the same bytes again.
#[test]
fn reference_rows_are_fixed_points() {
    for format in QUANTIZED.into_iter().filter(|&format| format != Format::F32) {
        let file = reference(format);
        for r in 0..9 {
            assert_eq!(
                quantized(format, file.f32("dequant").row(r)),
                file.u8("raw").row(r),
                "{format} row {r}"
            );
        }
    }
}

#[test]
fn zeros_of_either_sign_are_one_block() {
    for format in BLOCKED {
        let zeros = quantized(format, &[0.0; 32]);
        if format != Format::Q4_1 {
            assert_eq!(quantized(format, &[-0.0; 32]), zeros, "{format}");
        }
        assert!(dequantized(format, &zeros).iter().all(|&x| x == 0.0), "{format}");
    }
    assert_eq!(cast_blocks::<BlockQ4_0>(&quantized(Format::Q4_0, &[0.0; 32])).unwrap()[0].qs, [0x88; 16]);
}

#[test]
fn blocks_too_small_for_a_scale_become_zeros() {
    for magnitude in [f32::from_bits(1), f32::MIN_POSITIVE, 1e-30] {
        let mut x = [0.0; 32];
        x[3] = magnitude;
        x[7] = -magnitude;
        for format in BLOCKED {
            let y = dequantized(format, &quantized(format, &x));
            assert!(y.iter().all(|&y| y == 0.0), "{format}: {magnitude} gave {y:?}");
        }
    }
}

#[test]
fn the_signed_extreme_is_exact_in_q4_0() {
    for extreme in [-4.0, 4.0] {
        let mut x = [0.25; 32];
        x[20] = extreme;
        let y = dequantized(Format::Q4_0, &quantized(Format::Q4_0, &x));
        assert_eq!(y[20], extreme);
        x[21] = -extreme;
        let y = dequantized(Format::Q4_0, &quantized(Format::Q4_0, &x));
        assert_eq!((y[20], y[21]), (extreme, -extreme / 8.0 * 7.0), "the first of equals is the extreme");
    }
}

#[test]
fn what_is_not_finite_has_no_place_in_a_block() {
    for format in BLOCKED {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [1.0; 96];
            x[70] = value;
            let mut bytes = vec![0xa5; 3 * format.block_bytes()];
            let error = quantize_row(format, &x, &mut bytes).unwrap_err();
            let QuantError::Unrepresentable { format: named, index: 70, value: found } = error else {
                panic!("{format}: {error}");
            };
            assert!(named == format && found.to_bits() == value.to_bits());
            assert!(bytes[2 * format.block_bytes()..].iter().all(|&byte| byte == 0xa5), "{format}");
        }
    }
}

#[test]
fn what_is_beyond_the_range_is_refused() {
    let beyond = [
        (Format::Q4_0, -65520.0 * 8.0),
        (Format::Q4_1, -65520.0),
        (Format::Q4_1, 65520.0 * 15.0),
        (Format::Q8_0, -65520.0 * 127.0),
        (Format::F16, 65520.0),
        (Format::BF16, f32::MAX),
    ];
    for (format, value) in beyond {
        let mut x = vec![0.0; 2 * format.block_len()];
        let index = x.len() - 1;
        x[index] = value;
        let mut bytes = vec![0; 2 * format.block_bytes()];
        let error = quantize_row(format, &x, &mut bytes).unwrap_err();
        assert_eq!(error, QuantError::Unrepresentable { format, index, value });
        x[index] = value * 0.99;
        quantize_row(format, &x, &mut bytes).unwrap();
    }
    for format in BLOCKED {
        let error = quantize_row(format, &[f32::MAX; 32], &mut vec![0; format.block_bytes()]).unwrap_err();
        assert_eq!(error, QuantError::Unrepresentable { format, index: 0, value: f32::MAX });
    }
    let wide: Vec<f32> = [f32::MIN, f32::MAX].repeat(16);
    let error = quantize_row(Format::Q4_1, &wide, &mut [0; 20]).unwrap_err();
    assert!(matches!(error, QuantError::Unrepresentable { index: 0, .. }));
}

#[test]
fn plain_formats_keep_infinities_and_nan() {
    for format in [Format::F32, Format::F16, Format::BF16] {
        let row = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0];
        let y = dequantized(format, &quantized(format, &row));
        assert_eq!(y[..2], row[..2], "{format}");
        assert!(y[2].is_nan() && y[3].to_bits() == (-0.0_f32).to_bits(), "{format}");
    }
}

#[test]
fn other_formats_have_no_quantizer() {
    for format in Format::ALL {
        let x = vec![1.0; format.block_len()];
        let result = quantize_row(format, &x, &mut vec![0; format.block_bytes()]);
        let expected =
            if QUANTIZED.contains(&format) { Ok(()) } else { Err(QuantError::NoQuantizer { format }) };
        assert_eq!(result, expected);
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for format in QUANTIZED {
        let (block, size) = (format.block_len(), format.block_bytes());
        let x = vec![0.0; 2 * block + 1];
        let mut bytes = vec![0xa5; 3 * size];
        for got in [0, size, 2 * size - 1, 2 * size + 1, 3 * size] {
            let error = quantize_row(format, &x[..2 * block], &mut bytes[..got]).unwrap_err();
            assert_eq!(error, QuantError::ShapeMismatch { what: "bytes of a row", expected: 2 * size, got });
        }
        if block > 1 {
            for k in [2 * block - 1, 2 * block + 1] {
                let error = quantize_row(format, &x[..k], &mut bytes[..2 * size]).unwrap_err();
                assert_eq!(error, QuantError::PartialBlock { format, k, block });
            }
        }
        assert!(bytes.iter().all(|&byte| byte == 0xa5), "{format}: written in spite of an error");
        quantize_row(format, &x[..2 * block], &mut bytes[..2 * size]).unwrap();
        quantize_row(format, &[], &mut []).unwrap();
    }
}

/// Relative RMS error on Gaussian values: what the format's step allows, and no more.
#[test]
fn the_mean_error_is_that_of_the_step() {
    let expected = [
        (Format::F32, 0.0..=0.0),
        (Format::F16, 1.5e-4..=2.5e-4),
        (Format::BF16, 1.2e-3..=2e-3),
        (Format::Q8_0, 4e-3..=6e-3),
        (Format::Q4_1, 0.06..=0.09),
        (Format::Q4_0, 0.07..=0.1),
    ];
    let x = reference(Format::Q4_0).f32("x").data;
    let square =
        |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v) * f64::from(v)).sum::<f64>();
    for (format, range) in expected {
        let y = dequantized(format, &quantized(format, &x));
        let error = square(&mut x.iter().zip(&y).map(|(x, y)| x - y)) / square(&mut x.iter().copied());
        assert!(range.contains(&error.sqrt()), "{format}: {}", error.sqrt());
    }
}
