use super::score::{Scores, scores};

/// By a plain loop in f64 with the exact exponential.
fn oracle(row: &[f32], target: u32) -> f64 {
    let sum: f64 = row.iter().map(|&x| libm::exp(f64::from(x) - f64::from(row[target as usize]))).sum();
    libm::log(sum)
}

#[test]
fn scores_are_negative_log_probabilities_for_any_number_of_threads() {
    let vocabulary = 37;
    let logit = |i: usize| ((i * 7919 + 17) % 1009) as f32 / 50.0 - 9.0;
    let logits: Vec<f32> = (0..11 * vocabulary).map(logit).collect();
    let targets: Vec<u32> = (0..11).map(|i| (i * 10) % vocabulary as u32).collect();
    let one = scores(&logits, &targets, 1);
    for ((row, &target), score) in logits.chunks(vocabulary).zip(&targets).zip(&one) {
        let expected = oracle(row, target);
        assert!((score - expected).abs() <= 1e-6, "{score} {expected}");
    }
    for threads in [0, 2, 3, 11, 40] {
        assert_eq!(scores(&logits, &targets, threads), one);
    }
    assert!(scores(&[], &[], 2).is_empty());
}

#[test]
fn equal_logits_give_the_size_of_the_vocabulary_without_error() {
    for (vocabulary, logit) in [(1, 3.0), (16, 0.0), (1000, -1e30), (49152, f32::MAX)] {
        let mut sums = Scores::default();
        for score in scores(&vec![logit; vocabulary * 3], &[0, 0, vocabulary as u32 - 1], 2) {
            sums.add(score);
        }
        let estimate = sums.estimate(1);
        let expected = vocabulary as f64;
        assert!((estimate.perplexity - expected).abs() <= 1e-12 * expected, "{estimate:?}");
        assert!(estimate.standard_error.unwrap() <= 1e-6 * expected, "{estimate:?}");
    }
}

#[test]
fn a_sure_and_wrong_model_has_a_finite_score() {
    assert_eq!(scores(&[0.0, -200.0], &[1], 1), [200.0]);
    assert_eq!(scores(&[0.0, -200.0], &[0], 1), [0.0]);
}

#[test]
fn the_error_is_that_of_the_mean_times_the_perplexity() {
    let mut sums = Scores::default();
    sums.add(2.0);
    let first = sums.estimate(1);
    assert_eq!((first.tokens, first.standard_error), (1, None));
    [1.0, 4.0, 1.0].into_iter().for_each(|score| sums.add(score));
    let estimate = sums.estimate(2);
    assert_eq!((estimate.chunks, estimate.tokens), (2, 4));
    // Mean 2, mean of squares 5.5, variance 1.5, and that of the mean a third of it.
    let e2 = std::f64::consts::E * std::f64::consts::E;
    assert!((estimate.perplexity - e2).abs() < 1e-12);
    assert!((estimate.standard_error.unwrap() - 0.5_f64.sqrt() * e2).abs() < 1e-12);
}
