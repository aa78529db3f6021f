use cera_quant::blocks::dequantize_row;

use super::*;

#[test]
fn every_kind_of_every_format_is_finite_and_as_it_says() {
    for format in Format::ALL {
        for kind in Kind::ALL {
            let k = 8 * format.block_len();
            let bytes = rows(format, (4, k), kind, &mut Rng::new(1));
            let mut w = vec![f32::NAN; k];
            for row in bytes.chunks_exact(bytes.len() / 4) {
                dequantize_row(format, row, &mut w).expect("whole blocks");
                let bound = if kind == Kind::Mixed { 3e8 } else { 2e4 };
                assert!(w.iter().all(|w| w.abs() < bound), "{format} {kind:?}");
                let tiny = if format == Format::MXFP4 { 4e-38 } else { 0.0 };
                let zero = w.iter().all(|w| w.abs() <= tiny);
                assert!(
                    zero == (kind == Kind::NegativeZero) || matches!(kind, Kind::Fill(_)),
                    "{format} {kind:?}"
                );
            }
        }
    }
}

#[test]
fn seeds_differ_and_repeat() {
    let rows = |seed| rows(Format::Q4_K, (2, 512), Kind::Sane, &mut Rng::new(seed));
    assert_eq!(rows(5), rows(5));
    assert_ne!(rows(5), rows(6));
}
