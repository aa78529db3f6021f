use cera_quant::scalar::gemm::by_format;

use super::*;

#[test]
fn a_kernel_agrees_with_itself() {
    for format in Format::ALL {
        assert_eq!(disagreements(format, &[1, 4], by_format(format), by_format(format)), [""; 0]);
    }
}

#[test]
fn a_kernel_that_leaves_work_undone_is_found() {
    let forgets_a_strip = |args: &GemmArgs<'_>| {
        let strips = args.strips.start..args.strips.end.min(2);
        by_format(Format::Q4_0)(&GemmArgs { strips, ..args.clone() });
    };
    let found = disagreements(Format::Q4_0, &[4], forgets_a_strip, by_format(Format::Q4_0));
    // 33 rows with all numbers of tokens but 0, and many rows; two lengths.
    assert_eq!(found.len(), 7 * 2, "{found:#?}");
    assert!(found[0].contains("Q4_0 33 x 1 x 32, tile 4: (0, 32) is NaN, not "), "{}", found[0]);
}

#[test]
fn poison_is_never_equal_and_other_nan_are_one() {
    let case = Case::new(Format::F32, (1, 1, 1), 1, &[0; 4], &[1.0]);
    let differs = |got, expected| case.difference(&[got], |_, _| expected).is_some();
    assert!(!differs(f32::NAN, -f32::NAN) && !differs(1.0, 1.0));
    assert!(
        differs(POISON, f32::NAN) && differs(0.0, -0.0) && differs(1.0, f32::NAN) && differs(f32::NAN, 1.0)
    );
}
