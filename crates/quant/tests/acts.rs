//! Activation records against a plain implementation of their definition, byte for byte.

use cera_quant::QuantError;
use cera_quant::acts::{ActFormat, ActsRef, Q8x32, Q8x256, quantize_acts, quantize_tile, quantize_token};
use cera_testkit::rng::Rng;
use proptest::prelude::*;

/// The scale and the codes of a block, as the rules have it.
fn codes(x: &[f32]) -> (f32, Vec<i8>) {
    let amax = x.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0);
    if amax < 1f32.to_bits() - (100 << 23) {
        return (0.0, vec![0; x.len()]);
    }
    if amax >= f32::INFINITY.to_bits() {
        return (f32::from_bits(0x7fc0_0000), vec![0; x.len()]);
    }
    let inverse = 127.0 / f32::from_bits(amax);
    let code = |x: &f32| {
        let code = (x * inverse).round_ties_even();
        assert!(code.abs() <= 127.0, "{x:e} * {inverse:e}");
        code as i8
    };
    (f32::from_bits(amax) / 127.0, x.iter().map(code).collect())
}

fn sum(codes: impl IntoIterator<Item = i8>) -> i16 {
    codes.into_iter().map(i16::from).sum()
}

/// The sum of the codes at positions `2j` and `2j + 1` modulo 4.
fn pair(codes: &[i8], j: usize) -> i16 {
    let chosen = codes.iter().enumerate().filter(|(i, _)| i % 4 / 2 == j);
    sum(chosen.map(|(_, &code)| code))
}

/// The bytes of the record of one block, of which elements may be missing.
fn record(format: ActFormat, x: &[f32]) -> Vec<u8> {
    let mut x = x.to_vec();
    x.resize(format.block_len(), 0.0);
    let (scale, codes) = codes(&x);
    let code_bytes = codes.iter().map(|&code| code as u8);
    let mut bytes = scale.to_le_bytes().to_vec();
    match format {
        ActFormat::F32 => bytes = x[0].to_le_bytes().to_vec(),
        ActFormat::Bf16 => {
            let bf16 = |x: &f32| {
                let bits = half::bf16::from_f32(*x).to_bits();
                let tiny = f64::from(half::bf16::from_bits(bits).to_f32().abs()) < libm::ldexp(1.0, -55);
                if tiny { bits & 0x8000 } else { bits }
            };
            bytes = x.iter().flat_map(|x| bf16(x).to_le_bytes()).collect();
        }
        ActFormat::Q8x32 => {
            let sum = sum(codes.iter().copied());
            bytes.extend(i32::from(sum).to_le_bytes());
            let scaled = if scale.is_nan() { scale } else { scale * f32::from(sum) };
            bytes.extend(scaled.to_le_bytes());
            bytes.extend((0..2).flat_map(|j| pair(&codes, j).to_le_bytes()));
            bytes.extend(code_bytes);
        }
        ActFormat::Q8x256 => {
            bytes.extend([0; 12]);
            bytes.extend(codes.chunks(16).flat_map(|codes| sum(codes.iter().copied()).to_le_bytes()));
            bytes.extend(codes.chunks(32).flat_map(|codes| sum(codes.iter().copied()).to_le_bytes()));
            let pairs = codes.chunks(16).flat_map(|codes| [pair(codes, 0), pair(codes, 1)]);
            bytes.extend(pairs.flat_map(i16::to_le_bytes));
            bytes.extend(code_bytes);
        }
    }
    bytes
}

/// All records where the formula of the module puts them.
fn expected(format: ActFormat, x: &[f32], (n, k): (usize, usize), tile: usize) -> Vec<u8> {
    let (block, size) = (format.block_len(), format.record_bytes());
    let kb = k.div_ceil(block);
    let mut bytes = vec![0xa5; n * kb * size];
    for t in 0..n {
        let first = t - t % tile;
        let w = tile.min(n - first);
        for b in 0..kb {
            let at = (kb * first + b * w + t % tile) * size;
            let x = &x[t * k + b * block..t * k + k.min((b + 1) * block)];
            bytes[at..at + size].copy_from_slice(&record(format, x));
        }
    }
    bytes
}

/// Activations with blocks of every kind of size, and specials if wanted.
fn activations(len: usize, specials: bool, rng: &mut Rng) -> Vec<f32> {
    let mut x: Vec<f32> = (0..len).map(|_| rng.normal()).collect();
    for piece in x.chunks_mut(16) {
        let scale = rng.pick(&[0.0, 1e-38, 7e-31, 8e-31, 1e-17, 1.0, 1.0, 1.0, 6e4, 1e38]);
        piece.iter_mut().for_each(|x| *x *= scale);
        if specials && rng.below(4) == 0 {
            let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
            let at = rng.below(piece.len());
            piece[at] = rng.pick(&special);
        }
    }
    x
}

/// Quantizes and compares.
fn agrees(format: ActFormat, x: &[f32], (n, k): (usize, usize), tile: usize) -> Result<(), String> {
    let mut bytes = vec![0x5a; format.bytes(n, k).expect("size")];
    quantize_acts(format, x, k, tile, &mut bytes).expect("shapes");
    let expected = expected(format, x, (n, k), tile);
    match bytes.iter().zip(&expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("{} {n} x {k}, tile {tile}: byte {at}", format.label())),
    }
}

#[test]
fn every_shape_agrees_with_the_definition() {
    let mut rng = Rng::new(1);
    let mut failures = Vec::new();
    for format in ActFormat::ALL {
        for k in [1, 2, 3, 31, 32, 33, 64, 255, 256, 257, 512] {
            for n in [0, 1, 2, 3, 4, 5, 15, 16, 17] {
                for tile in [1, 3, 4, 16, 40] {
                    let x = activations(n * k, n % 2 == 1, &mut rng);
                    failures.extend(agrees(format, &x, (n, k), tile).err());
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

proptest! {
    #[test]
    fn any_bits_agree_with_the_definition(
        f in 0..ActFormat::ALL.len(), bits in prop::collection::vec(any::<u32>(), 1..600),
    ) {
        // Four exponents make blocks whose elements are of comparable size.
        let x: Vec<f32> = bits.iter().map(|b| f32::from_bits(b & 0x81ff_ffff | 0x3e00_0000)).collect();
        prop_assert_eq!(agrees(ActFormat::ALL[f], &x, (1, x.len()), 1), Ok(()));
        let wild: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        prop_assert_eq!(agrees(ActFormat::ALL[f], &wild, (1, wild.len()), 1), Ok(()));
    }
}

/// The largest magnitude gets the code 127 whatever its mantissa is, and nothing gets more: scaling by powers of two
/// changes no code, so one binade stands for all.
#[test]
fn the_largest_code_is_127_for_every_mantissa() {
    for mantissa in (0..1 << 23).step_by(16) {
        let mut x = [0.0; 32];
        for (i, pair) in x.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let largest = f32::from_bits(1f32.to_bits() | (mantissa + i as u32));
            *pair = [largest, -largest];
        }
        // The last pair is the largest; those before are at most 15 steps smaller.
        let codes = Q8x32::quantize(&x).codes;
        assert!(
            codes.iter().enumerate().all(|(i, &c)| c == if i % 2 == 0 { 127 } else { -127 }),
            "{mantissa:#x}"
        );
    }
}

#[test]
fn ties_go_to_even() {
    let mut x = [0.0; 32];
    x[..8].copy_from_slice(&[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]);
    let record = Q8x32::quantize(&x);
    assert_eq!((record.scale, &record.codes[..8]), (1.0, &[127, 0, 2, 2, 0, -2, -2, 126][..]));
    assert_eq!((record.sum, record.scaled_sum, record.pairs), (253, 253.0, [125, 128]));
}

#[test]
fn the_ends_of_the_range_follow_the_rules() {
    let block = |x: f32| {
        let mut block = [0.0; 256];
        block[7] = x;
        Q8x256::quantize(&block)
    };
    let threshold = libm::ldexp(1.0, -100) as f32;
    let below = f32::from_bits(threshold.to_bits() - 1);
    for (x, scale, code) in [
        (threshold, threshold / 127.0, 127),
        (-threshold, threshold / 127.0, -127),
        (below, 0.0, 0),
        (f32::MAX, f32::MAX / 127.0, 127),
        (f32::MIN, f32::MAX / 127.0, -127),
        (-0.0, 0.0, 0),
        (f32::from_bits(1), 0.0, 0),
    ] {
        let record = block(x);
        assert_eq!((record.scale.to_bits(), record.codes[7]), (scale.to_bits(), code), "{x:e}");
        assert_eq!(
            (record.sums16[0], record.sums32[0], record.pairs16[0][1]),
            (code.into(), code.into(), code.into())
        );
    }
    for x in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let record = block(x);
        assert!(record.scale.to_bits() == 0x7fc0_0000 && record.codes == [0; 256], "{x}");
    }
}

#[test]
fn bf16_rounds_then_flushes() {
    let keep = libm::ldexp(1.0, -55) as f32;
    // Halfway between the largest flushed value and 2^-55, and just below that.
    let half = f32::from_bits(keep.to_bits() - 0x8000);
    let cases = [
        (keep, 72 << 7),
        (half, 72 << 7),
        (f32::from_bits(half.to_bits() - 1), 0),
        (-f32::from_bits(half.to_bits() - 1), 0x8000),
        (-0.0, 0x8000),
        (f32::from_bits(0x3f80_8000), 0x3f80),
        (f32::from_bits(0x3f81_8000), 0x3f82),
        (f32::MAX, 0x7f80),
        (f32::NEG_INFINITY, 0xff80),
        (f32::from_bits(0x7f80_0001), 0x7fc0),
    ];
    for (x, bits) in cases {
        let mut record = [0x5a; 4];
        quantize_tile(ActFormat::Bf16, &[x, 1.0], 2, &mut record).expect("shapes");
        assert_eq!(u16::from_le_bytes([record[0], record[1]]), bits, "{x:e}");
    }
}

#[test]
fn tokens_of_a_tile_can_be_filled_one_by_one() {
    for format in ActFormat::ALL {
        let (n, k) = (5, 300);
        let x = activations(n * k, false, &mut Rng::new(2));
        let mut whole = vec![0x5a; format.bytes(n, k).expect("size")];
        let mut single = vec![0xa5; whole.len()];
        quantize_tile(format, &x, k, &mut whole).expect("shapes");
        for t in [3, 0, 4, 2, 1] {
            quantize_token(format, &x[t * k..(t + 1) * k], (t, n), &mut single).expect("shapes");
        }
        assert_eq!(whole, single, "{}", format.label());
    }
}

#[test]
fn tiles_are_what_the_view_reads() {
    let (format, n, k, tile) = (ActFormat::Q8x32, 7, 64, 3);
    let x = activations(n * k, false, &mut Rng::new(3));
    let mut all = vec![0; format.bytes(n, k).expect("size")];
    quantize_acts(format, &x, k, tile, &mut all).expect("shapes");
    let acts = ActsRef::new(format, (n, k), tile, &all).expect("shapes");
    assert_eq!((acts.tiles(), acts.blocks()), (3, 2));
    for (t, rows) in x.chunks(tile * k).enumerate() {
        let (width, records) = acts.tile_records(t);
        let mut own = vec![0; records.len()];
        quantize_tile(format, rows, k, &mut own).expect("shapes");
        assert_eq!((width, records), (rows.len() / k, &own[..]), "tile {t}");
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let format = ActFormat::Q8x32;
    let shape = |what, expected, got| Err::<(), _>(QuantError::ShapeMismatch { what, expected, got });
    let mut out = [0; 200];
    let mut all =
        |x: usize, k, tile, len: usize| quantize_acts(format, &vec![0.0; x], k, tile, &mut out[..len]);
    assert_eq!(all(65, 32, 1, 96), shape("activations in whole rows", 64, 65));
    assert_eq!(all(1, 0, 1, 0), shape("activations in whole rows", 0, 1));
    assert_eq!(all(64, 32, 1, 97), shape("bytes of activations", 96, 97));
    assert_eq!(all(64, 32, 0, 96), shape("tokens of a column tile", 1, 0));
    assert_eq!(all(64, 32, usize::MAX, 96), Ok(()));
    assert_eq!(all(0, 32, 1, 0), Ok(()));
    assert_eq!(all(0, 0, 1, 0), Ok(()));
    let mut tile = |x: usize, len: usize| quantize_tile(format, &vec![0.0; x], 32, &mut out[..len]);
    assert_eq!(tile(63, 48), shape("activations in whole rows", 32, 63));
    assert_eq!(tile(64, 48), shape("bytes of activations", 96, 48));
    assert_eq!(tile(64, 96), Ok(()));
    let mut token = |t, w, len: usize| quantize_token(format, &[0.0; 32], (t, w), &mut out[..len]);
    let range = QuantError::OutOfRange { what: "token of a column tile", end: 3, len: 2 };
    assert_eq!(token(2, 2, 96), Err(range));
    assert_eq!(token(1, 2, 48), shape("bytes of activations", 96, 48));
    assert_eq!(token(1, 2, 96), Ok(()));
}
