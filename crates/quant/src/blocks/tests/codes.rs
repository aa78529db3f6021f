use super::*;

/// Writes `bits` of `value`, lowest first, to the bit positions `(byte, bit)`.
fn scatter(bytes: &mut [u8], value: u8, positions: impl IntoIterator<Item = (usize, usize)>) {
    for (i, (byte, bit)) in positions.into_iter().enumerate() {
        bytes[byte] |= (value >> i & 1) << bit;
    }
}

/// The positions of `n` bits from `bit` of `byte` on.
fn bits(byte: usize, bit: usize, n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).map(move |i| (byte, bit + i))
}

proptest! {
    #[test]
    fn k_scales_come_out_as_put_in(sc: [u8; 8], m: [u8; 8]) {
        let (sc, m) = (sc.map(|x| x & 63), m.map(|x| x & 63));
        let mut bytes = [0; 12];
        for j in 0..4 {
            scatter(&mut bytes, sc[j], bits(j, 0, 6));
            scatter(&mut bytes, m[j], bits(j + 4, 0, 6));
            scatter(&mut bytes, sc[j + 4], bits(j + 8, 0, 4).chain(bits(j, 6, 2)));
            scatter(&mut bytes, m[j + 4], bits(j + 8, 4, 4).chain(bits(j + 4, 6, 2)));
        }
        prop_assert_eq!(k_scales(&bytes), (sc, m));
    }

    #[test]
    fn q3_k_scales_come_out_as_put_in(sc: [u8; 16]) {
        let sc = sc.map(|x| x & 63);
        let mut bytes = [0; 12];
        for (j, &value) in sc.iter().enumerate() {
            scatter(&mut bytes, value, bits(j % 8, j / 8 * 4, 4).chain(bits(8 + j % 4, j / 4 * 2, 2)));
        }
        prop_assert_eq!(q3_k_scales(&bytes), sc.map(|x| x as i8 - 32));
    }

    #[test]
    fn iq4_xs_scales_come_out_as_put_in(sc: [u8; 8]) {
        let sc = sc.map(|x| x & 63);
        let (mut low, mut high) = ([0; 4], 0);
        for (j, &value) in sc.iter().enumerate() {
            scatter(&mut low, value, bits(j / 2, j % 2 * 4, 4));
            high |= u16::from(value >> 4) << (2 * j);
        }
        prop_assert_eq!(iq4_xs_scales(high, &low), sc.map(|x| x as i8 - 32));
    }
}

#[test]
fn e8m0_halves_are_powers_of_two() {
    let mut power = 0.5_f64;
    for _ in 0..127 {
        power *= 0.5;
    }
    for e in 0..=255 {
        assert_eq!(f64::from(e8m0_half(e)), power, "exponent {e}");
        power *= 2.0;
    }
    assert!(e8m0_half(1).is_subnormal() && e8m0_half(2).is_normal());
    assert_eq!(e8m0_half(2), f32::MIN_POSITIVE);
    assert_eq!(e8m0_half(128), 1.0);
}

#[test]
fn every_half_is_converted_exactly() {
    for bits in 0..=u16::MAX {
        let half = F16Le(bits.to_le_bytes());
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let magnitude = match exponent {
            0 => fraction * scale_by_two(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + fraction) * scale_by_two(exponent - 25),
        };
        let value = half.to_f32();
        assert_eq!(half.to_bits(), bits);
        assert!(f64::from(value.abs()) == magnitude || value.is_nan() && magnitude.is_nan(), "{bits:#06x}");
        assert_eq!(value.is_sign_negative(), bits >> 15 == 1, "{bits:#06x}");
        assert!(value.is_nan() || F16Le::from_f32(value) == half, "{bits:#06x}");
    }
}

/// `2^n` by products.
fn scale_by_two(n: i32) -> f64 {
    (0..n.abs()).fold(1.0, |power, _| if n < 0 { power / 2.0 } else { power * 2.0 })
}
