use super::*;

/// Five logits with a tie between tokens 1 and 3.
const LOGITS: [f32; 5] = [0.5, 2.0, -1.0, 2.0, 1.0];

/// Everything off, temperature 1.
fn plain() -> SamplingParams {
    SamplingParams { temperature: 1.0, ..SamplingParams::greedy() }
}

fn sampler(params: &SamplingParams) -> Sampler {
    Sampler::new(params.clone(), 5).unwrap()
}

fn token(params: &SamplingParams, logits: &[f32]) -> u32 {
    sampler(params).sample(logits, 0).unwrap().token
}

/// How often each token is drawn in `n` steps.
fn counts(params: &SamplingParams, logits: &[f32], n: usize) -> Vec<usize> {
    let mut sampler = Sampler::new(params.clone(), logits.len()).unwrap();
    let mut counts = vec![0; logits.len()];
    for step in 0..n {
        counts[sampler.sample(logits, step as u64).unwrap().token as usize] += 1;
    }
    counts
}

/// The tokens that can be drawn.
fn support(params: &SamplingParams, logits: &[f32]) -> Vec<usize> {
    let counts = counts(params, logits, 2000);
    (0..counts.len()).filter(|&token| counts[token] > 0).collect()
}

/// The softmax in f64, by a plain loop.
fn softmax(logits: &[f64]) -> Vec<f64> {
    let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|x| libm::exp(x - best)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The distance of counts to probabilities: the sum over tokens of (counted - expected)^2 / expected.
fn chi_square(counts: &[usize], probabilities: &[f64]) -> f64 {
    let n: usize = counts.iter().sum();
    let mut sum = 0.0;
    for (&count, probability) in counts.iter().zip(probabilities) {
        let expected = probability * n as f64;
        if expected > 0.0 {
            sum += (count as f64 - expected) * (count as f64 - expected) / expected;
        } else {
            assert_eq!(count, 0);
        }
    }
    sum
}

#[test]
fn case_59_logits_that_are_not_finite_are_errors_that_name_the_step() {
    let (nan, inf, mask) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    for params in [SamplingParams::greedy(), plain(), SamplingParams::default()] {
        let error = |logits: [f32; 5]| sampler(&params).sample(&logits, 7).unwrap_err();
        let non_finite = |token, found| SampleError::NonFinite { step: 7, token, found };
        assert_eq!(error([nan; 5]), non_finite(0, "NaN"));
        assert_eq!(error([0.0, 1.0, nan, 0.0, 0.0]), non_finite(2, "NaN"));
        assert_eq!(error([0.0, mask, mask, inf, 0.0]), non_finite(3, "inf"));
        assert_eq!(error([inf, nan, 0.0, 0.0, 0.0]), non_finite(0, "inf"));
        assert_eq!(error([mask; 5]), SampleError::AllMasked { step: 7 });
        let counted = SampleError::LogitCount { step: 7, expected: 5, found: 4 };
        assert_eq!(sampler(&params).sample(&[0.0; 4], 7), Err(counted));
        assert_eq!(sampler(&params).sample(&[mask, mask, 0.5, mask, mask], 7).unwrap().token, 2);
        let ban_all = SamplingParams { logit_bias: (0..5).map(|t| (t, mask)).collect(), ..params.clone() };
        assert_eq!(sampler(&ban_all).sample(&LOGITS, 7), Err(SampleError::AllBanned { step: 7 }));
    }
    let shown = sampler(&plain()).sample(&[0.0, 1.0, nan, 0.0, 0.0], 41).unwrap_err().to_string();
    assert_eq!(shown, "step 41: the logit of token 2 is NaN");
}

#[test]
fn an_error_changes_nothing() {
    let params = SamplingParams { presence_penalty: 1.0, ..plain() };
    let (mut one, mut other) = (sampler(&params), sampler(&params));
    for step in 0..50 {
        one.sample(&[f32::NAN; 5], step).unwrap_err();
        assert_eq!(one.sample(&LOGITS, step), other.sample(&LOGITS, step));
    }
}

#[test]
fn case_60_parameters_out_of_range_are_named_with_their_value() {
    type Set = fn(&mut SamplingParams, f32);
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let fields: [(&str, Set, &[f32], &[f32]); 7] = [
        (
            "temperature",
            |p, x| p.temperature = x,
            &[nan, inf, -inf, -0.1, 100.5],
            &[0.0, -0.0, 1e-45, 1.0, 100.0],
        ),
        ("top_p", |p, x| p.top_p = x, &[nan, inf, -1e-9, 1.001, -inf], &[0.0, 0.5, 1.0]),
        ("min_p", |p, x| p.min_p = x, &[nan, inf, -1e-9, 1.001], &[0.0, 0.5, 1.0]),
        (
            "repeat_penalty",
            |p, x| p.repeat_penalty = x,
            &[nan, inf, 0.0, -0.0, -1.0, 101.0],
            &[1e-30, 1.0, 100.0],
        ),
        ("frequency_penalty", |p, x| p.frequency_penalty = x, &[nan, inf, -101.0], &[-2.0, 0.0, 2.0]),
        ("presence_penalty", |p, x| p.presence_penalty = x, &[nan, -inf, 101.0], &[-2.0, 0.0, 2.0]),
        ("logit_bias", |p, x| p.logit_bias = vec![(3, x)], &[nan, inf, 1e7], &[-inf, -100.0, 0.0, 1e6]),
    ];
    for (field, set, wrong, right) in fields {
        for &value in wrong {
            let mut params = SamplingParams::default();
            set(&mut params, value);
            let error = params.check().unwrap_err();
            assert_eq!(error.field, field);
            assert!(error.found.starts_with(&value.to_string()), "{error}");
            assert_eq!(Sampler::new(params, 5).unwrap_err(), error);
        }
        for &value in right {
            let mut params = SamplingParams::default();
            set(&mut params, value);
            assert_eq!(params.check(), Ok(()), "{field} {value}");
            assert!(sampler(&params).sample(&LOGITS, 0).is_ok(), "{field} {value}");
        }
    }
    let error = SamplingParams { top_p: -0.5, ..plain() }.check().unwrap_err();
    assert_eq!(error.to_string(), "top_p is -0.5, expected a number from 0 to 1");
    let error = Sampler::new(SamplingParams { logit_bias: vec![(5, 1.0)], ..plain() }, 5).unwrap_err();
    assert_eq!(error.to_string(), "logit_bias is for token 5, expected tokens below 5");
    assert_eq!(Sampler::new(plain(), 0).unwrap_err().field, "vocabulary");
}

#[test]
fn case_60_edges_over_five_logits() {
    let all = vec![0, 1, 2, 3, 4];
    let max = u32::MAX;
    let table: [(&str, SamplingParams, Vec<usize>); 22] = [
        ("all off", plain(), all.clone()),
        ("top_k 0 is off", SamplingParams { top_k: 0, ..plain() }, all.clone()),
        ("top_k 1 is the lowest id of the best", SamplingParams { top_k: 1, ..plain() }, vec![1]),
        ("top_k 2", SamplingParams { top_k: 2, ..plain() }, vec![1, 3]),
        ("top_k 3", SamplingParams { top_k: 3, ..plain() }, vec![1, 3, 4]),
        ("top_k 5", SamplingParams { top_k: 5, ..plain() }, all.clone()),
        ("top_k of all bits is off", SamplingParams { top_k: max, ..plain() }, all.clone()),
        ("top_p 1 is off", SamplingParams { top_p: 1.0, ..plain() }, all.clone()),
        ("top_p 0 is the best one", SamplingParams { top_p: 0.0, ..plain() }, vec![1]),
        // The probabilities are 0.083, 0.373, 0.019, 0.373, 0.137.
        ("top_p below the best", SamplingParams { top_p: 0.3, ..plain() }, vec![1]),
        ("top_p takes the one that reaches it", SamplingParams { top_p: 0.4, ..plain() }, vec![1, 3]),
        ("top_p of three", SamplingParams { top_p: 0.8, ..plain() }, vec![1, 3, 4]),
        (
            "top_p after top_k is of those left",
            SamplingParams { top_k: 3, top_p: 0.8, ..plain() },
            vec![1, 3],
        ),
        ("min_p 0 is off", SamplingParams { min_p: 0.0, ..plain() }, all.clone()),
        ("min_p 1 is the best and its equals", SamplingParams { min_p: 1.0, ..plain() }, vec![1, 3]),
        // exp(1 - 2) is 0.368 and exp(0.5 - 2) is 0.223.
        ("min_p 0.3", SamplingParams { min_p: 0.3, ..plain() }, vec![1, 3, 4]),
        (
            "filters see temperature 1",
            SamplingParams { min_p: 0.3, temperature: 100.0, ..plain() },
            vec![1, 3, 4],
        ),
        ("temperature 0", SamplingParams::greedy(), vec![1]),
        ("temperature 0 whatever top_k", SamplingParams { top_k: max, ..SamplingParams::greedy() }, vec![1]),
        ("the smallest temperature", SamplingParams { temperature: 1e-45, ..plain() }, vec![1, 3]),
        (
            "a window of 0",
            SamplingParams { presence_penalty: 9.0, penalty_window: 0, ..SamplingParams::greedy() },
            vec![1],
        ),
        ("a seed of all bits", SamplingParams { seed: u64::MAX, ..plain() }, all),
    ];
    for (name, params, expected) in table {
        assert_eq!(support(&params, &LOGITS), expected, "{name}");
    }
}

#[test]
fn case_60_greedy_is_the_argmax_with_ties_to_the_lowest_id() {
    let greedy = SamplingParams::greedy();
    assert_eq!(token(&greedy, &LOGITS), 1);
    assert_eq!(token(&greedy, &[0.0; 5]), 0);
    assert_eq!(token(&greedy, &[-0.0, 0.0, 0.0, 0.0, 0.0]), 0);
    assert_eq!(token(&greedy, &[-3.0, -2.0, -9.0, -2.0, -2.5]), 1);
    assert_eq!(token(&SamplingParams { temperature: -0.0, ..greedy.clone() }, &LOGITS), 1);
    // What is set explicitly holds: the neutral defaults are what makes greedy plain.
    assert_eq!(token(&SamplingParams { logit_bias: vec![(2, 3.5)], ..greedy.clone() }, &LOGITS), 2);
    assert_eq!(
        token(&SamplingParams { logit_bias: vec![(1, f32::NEG_INFINITY)], ..greedy.clone() }, &LOGITS),
        3
    );
    let mut once = sampler(&SamplingParams { repeat_penalty: 1.5, ..greedy });
    let tokens: Vec<u32> = (0..3).map(|step| once.sample(&LOGITS, step).unwrap().token).collect();
    // 2 becomes 1.33 for both of the best, which stay above 1.
    assert_eq!(tokens, [1, 3, 1]);
}

#[test]
fn the_highest_of_many_logits_is_found_wherever_it_stands() {
    let mut wrong = Vec::new();
    for len in [1_usize, 15, 16, 17, 511, 512, 513, 1100] {
        for at in (0..len).step_by(len.div_ceil(37)) {
            let mut logits: Vec<f32> = (0..len).map(|i| ((i * 7919) % 997) as f32 / -100.0 - 1.0).collect();
            logits[at] = 0.5;
            logits[len - 1] = 0.5;
            let mut sampler = Sampler::new(SamplingParams::greedy(), len).unwrap();
            let found = sampler.sample(&logits, 3).unwrap().token;
            logits[at] = f32::NAN;
            let error = sampler.sample(&logits, 3).unwrap_err();
            let expected = SampleError::NonFinite { step: 3, token: at as u32, found: "NaN" };
            if found as usize != at || error != expected {
                wrong.push((len, at));
            }
        }
    }
    assert!(wrong.is_empty(), "(logits, the highest): {wrong:?}");
}

#[test]
fn penalties_follow_their_definitions() {
    let logits = [1.0, -1.0, 0.5, 0.0, 3.0];
    let base = SamplingParams { penalty_window: 8, logprobs: None, ..plain() };
    let accepted = [0, 1, 1, 2, 2, 2];
    // (parameters, scores after the penalties), computed by hand.
    let table = [
        (SamplingParams { repeat_penalty: 2.0, ..base.clone() }, [0.5, -2.0, 0.25, 0.0, 3.0]),
        (SamplingParams { repeat_penalty: 0.5, ..base.clone() }, [2.0, -0.5, 1.0, 0.0, 3.0]),
        (SamplingParams { frequency_penalty: 0.5, ..base.clone() }, [0.5, -2.0, -1.0, 0.0, 3.0]),
        (SamplingParams { presence_penalty: 0.5, ..base.clone() }, [0.5, -1.5, 0.0, 0.0, 3.0]),
        (SamplingParams { presence_penalty: -1.0, ..base.clone() }, [2.0, 0.0, 1.5, 0.0, 3.0]),
        (
            SamplingParams {
                repeat_penalty: 2.0,
                frequency_penalty: 0.25,
                presence_penalty: 1.0,
                ..base.clone()
            },
            [-0.75, -3.5, -1.5, 0.0, 3.0],
        ),
        // The bias comes first, so that the penalty divides the sum.
        (
            SamplingParams { repeat_penalty: 2.0, logit_bias: vec![(0, 2.0), (3, 1.0), (3, 0.5)], ..base },
            [1.5, -2.0, 0.25, 1.5, 3.0],
        ),
    ];
    for (params, scores) in table {
        // Each draw from a fresh window; the seeds give independent first numbers.
        let mut counts = [0; 5];
        for seed in 0..20_000 {
            let mut sampler = sampler(&SamplingParams { seed, ..params.clone() });
            accepted.iter().for_each(|&token| sampler.accept(token));
            counts[sampler.sample(&logits, 0).unwrap().token as usize] += 1;
        }
        // 99.9 % of chi-square with 4 degrees of freedom.
        let distance = chi_square(&counts, &softmax(&scores));
        assert!(distance < 18.47, "{params:?}: {counts:?}, {distance}");
    }
}

#[test]
fn the_window_forgets_the_oldest() {
    let strong = |window| SamplingParams {
        presence_penalty: 50.0,
        penalty_window: window,
        ..SamplingParams::greedy()
    };
    // Always the best that is not among the last `window`.
    let run = |window| {
        let mut sampler = sampler(&strong(window));
        (0..8).map(|step| sampler.sample(&LOGITS, step).unwrap().token).collect::<Vec<u32>>()
    };
    assert_eq!(run(0), [1; 8]);
    assert_eq!(run(1), [1, 3, 1, 3, 1, 3, 1, 3]);
    assert_eq!(run(2), [1, 3, 4, 1, 3, 4, 1, 3]);
    // With all penalised alike the order is that of the logits again.
    assert_eq!(run(u32::MAX), [1, 3, 4, 0, 2, 1, 1, 1]);
    // Tokens of the prompt count, those outside of the vocabulary only take a place.
    let mut prompted = sampler(&strong(2));
    prompted.accept(3);
    prompted.accept(1);
    assert_eq!(prompted.sample(&LOGITS, 0).unwrap().token, 4);
    let mut odd = sampler(&strong(2));
    for token in [1, u32::MAX, 5] {
        odd.accept(token);
    }
    assert_eq!(odd.sample(&LOGITS, 0).unwrap().token, 1);
}

#[test]
fn draws_follow_the_probabilities() {
    let f64s = |logits: &[f32], temperature: f64| -> Vec<f64> {
        softmax(&logits.iter().map(|&x| f64::from(x) / temperature).collect::<Vec<f64>>())
    };
    let masked = [0.5, f32::NEG_INFINITY, -1.0, 2.0, 1.0];
    let cases = [
        (plain(), LOGITS, f64s(&LOGITS, 1.0)),
        (SamplingParams { temperature: 0.5, ..plain() }, LOGITS, f64s(&LOGITS, 0.5)),
        (SamplingParams { temperature: 2.0, seed: 9, ..plain() }, LOGITS, f64s(&LOGITS, 2.0)),
        (plain(), masked, f64s(&masked, 1.0)),
        (
            SamplingParams { top_k: 3, ..plain() },
            LOGITS,
            f64s(&[f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY, 2.0, 1.0], 1.0),
        ),
        (
            SamplingParams { logit_bias: vec![(2, 2.5)], ..plain() },
            LOGITS,
            f64s(&[0.5, 2.0, 1.5, 2.0, 1.0], 1.0),
        ),
    ];
    for (params, logits, probabilities) in cases {
        let counts = counts(&params, &logits, 100_000);
        let distance = chi_square(&counts, &probabilities);
        assert!(distance < 18.47, "{params:?}: {counts:?}, {distance}");
    }
}

#[test]
fn a_seed_gives_its_tokens_everywhere() {
    let run = |seed| {
        let mut sampler = sampler(&SamplingParams { seed, ..plain() });
        (0..24).map(|step| sampler.sample(&LOGITS, step).unwrap().token).collect::<Vec<u32>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    // Frozen: a change of the generator, of the order of the sums or of the walk changes these.
    assert_eq!(run(0), FROZEN_0);
    assert_eq!(run(42), FROZEN_42);
    // A clone goes on alike, and a step takes one number whatever the filters leave.
    let mut one = sampler(&plain());
    one.sample(&LOGITS, 0).unwrap();
    let mut two = one.clone();
    assert_eq!(one.sample(&LOGITS, 1), two.sample(&LOGITS, 1));
}

/// Made by another implementation of ChaCha8 and the draw, in Python.
const FROZEN_0: [u32; 24] = [3, 3, 1, 1, 1, 1, 0, 1, 1, 3, 3, 1, 3, 1, 3, 3, 3, 4, 3, 3, 1, 3, 1, 4];
const FROZEN_42: [u32; 24] = [1, 1, 3, 1, 3, 0, 3, 1, 2, 3, 3, 3, 1, 1, 3, 1, 1, 1, 3, 3, 3, 0, 3, 3];

#[test]
fn log_probabilities_are_the_model_s_own() {
    let params = SamplingParams {
        logprobs: Some(3),
        temperature: 0.1,
        top_k: 2,
        logit_bias: vec![(2, 20.0)],
        ..SamplingParams::default()
    };
    let exact: Vec<f64> = softmax(&LOGITS.map(f64::from)).into_iter().map(libm::log).collect();
    let choice = sampler(&params).sample(&LOGITS, 0).unwrap();
    assert_eq!(choice.token, 2);
    assert!((f64::from(choice.logprob.unwrap()) - exact[2]).abs() < 1e-6);
    assert_eq!(choice.top.iter().map(|(token, _)| *token).collect::<Vec<u32>>(), [1, 3, 4]);
    for &(token, logprob) in &choice.top {
        assert!((f64::from(logprob) - exact[token as usize]).abs() < 1e-6);
    }
    let none = sampler(&plain()).sample(&LOGITS, 0).unwrap();
    assert_eq!((none.logprob, none.top), (None, vec![]));
    let zero = sampler(&SamplingParams { logprobs: Some(0), ..plain() }).sample(&LOGITS, 0).unwrap();
    assert!(zero.logprob.is_some() && zero.top.is_empty());
    let masked = [0.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
    let all = sampler(&SamplingParams { logprobs: Some(u32::MAX), ..plain() }).sample(&masked, 0).unwrap();
    assert_eq!((all.logprob, all.top), (Some(0.0), vec![(0, 0.0)]));
    // Logits at both ends of the range neither overflow nor lose the best.
    let wide = [f32::MAX, f32::MIN, 0.0, 1.0, f32::MAX];
    let choice = sampler(&SamplingParams { logprobs: Some(1), ..plain() }).sample(&wide, 0).unwrap();
    assert!((choice.logprob.unwrap() + std::f32::consts::LN_2).abs() < 1e-6);
}

/// Many logits with many ties.
fn many(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = cera_testkit::rng::Rng::new(seed);
    (0..n).map(|_| (rng.normal() * 40.0).round() / 8.0).collect()
}

#[test]
fn filters_over_many_tokens_keep_what_a_full_sort_keeps() {
    for (n, seed) in [(1, 1), (2, 2), (17, 3), (600, 4), (5000, 5)] {
        let logits = many(n, seed);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        for k in [1, 2, 16, 40, 299, 300, 301, 4999, 5000] {
            let mut pool = Vec::new();
            candidates::best(logits.iter().map(|&x| f64::from(x)), k, &mut pool);
            let mut ids: Vec<usize> = pool.iter().map(|c| c.id as usize).collect();
            ids.sort_unstable();
            let mut expected: Vec<usize> = order.iter().copied().take(k).collect();
            expected.sort_unstable();
            assert_eq!(ids, expected, "{k} of {n}");
        }
        let probabilities = softmax(&logits.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
        for top_p in [0.0, 0.1, 0.5, 0.9, 0.95, 0.999] {
            let mut pool = Vec::new();
            candidates::best(logits.iter().map(|&x| f64::from(x)), n, &mut pool);
            candidates::weigh(&mut pool, 1.0);
            candidates::top_p(&mut pool, top_p);
            let mut sum = 0.0;
            let fits = |sum: f64| sum >= f64::from(top_p);
            let count = order.iter().position(|&id| {
                sum += probabilities[id];
                fits(sum)
            });
            let mut expected = order[..=count.unwrap()].to_vec();
            expected.sort_unstable();
            let ids: Vec<usize> = pool.iter().map(|c| c.id as usize).collect();
            assert_eq!(ids, expected, "{top_p} of {n}");
        }
    }
}
