//! Sampling reuses its memory.

use cera_models::sampling::{Sampler, SamplingParams};
use cera_testkit::alloc::{Counting, measure};
use cera_testkit::rng::Rng;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_steady_step_allocates_nothing() {
    let mut rng = Rng::new(1);
    let logits: Vec<f32> = (0..5000).map(|_| rng.normal() * 5.0).collect();
    let defaults = SamplingParams::default();
    for params in [
        defaults.clone(),
        SamplingParams { repeat_penalty: 1.1, presence_penalty: 0.5, ..defaults.clone() },
        SamplingParams { top_k: 0, logprobs: Some(0), ..defaults.clone() },
        SamplingParams { temperature: 0.0, logit_bias: vec![(3, 1.0)], ..defaults },
    ] {
        let mut sampler = Sampler::new(params.clone(), logits.len()).unwrap();
        for step in 0..100 {
            sampler.sample(&logits, step).unwrap();
        }
        let ((), usage) = measure(|| {
            for step in 100..200 {
                sampler.sample(&logits, step).unwrap();
            }
        });
        assert_eq!(usage.allocations, 0, "{params:?}");
    }
}
