use cera_testkit::fixtures::Fixture;

use super::*;
use crate::kv::{AppendArgs, KvPages, KvShape, PAGE_KEYS};
use crate::scalar::ops as scalar;

fn fixture() -> Fixture {
    Fixture::open("ops/ops.safetensors")
}

fn assert_close(what: &str, got: &[f32], expected: &[f32], (relative, absolute): (f32, f32)) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let near = |g: f32, e: f32| (g - e).abs() <= relative * e.abs() + absolute;
    let far: Vec<_> = got.iter().zip(expected).filter(|&(&g, &e)| !near(g, e)).take(5).collect();
    assert!(far.is_empty(), "{what}: (got, expected) {far:?}");
}

#[test]
fn rms_norm_agrees_with_the_fixtures() {
    let f = fixture();
    let (x, weight) = (f.f32("rmsnorm.x").data, f.f32("rmsnorm.weight").data);
    let mut out = vec![f32::NAN; x.len()];
    scalar::rms_norm(&mut RmsNormArgs {
        x: &x,
        weight: &weight,
        eps: f.f32("rmsnorm.eps").data[0],
        out: &mut out,
    });
    assert_close("rmsnorm", &out, &f.f32("rmsnorm.out").data, (2e-6, 2e-6));
}

#[test]
fn layer_norm_and_gelu_agree_with_the_fixtures() {
    let f = fixture();
    let [x, weight, bias, eps, expected] =
        ["x", "weight", "bias", "eps", "out"].map(|field| f.f32(&format!("layernorm.{field}")).data);
    let mut out = vec![f32::NAN; x.len()];
    let args = &mut LayerNormArgs { x: &x, weight: &weight, bias: &bias, eps: eps[0], out: &mut out };
    scalar::layer_norm(args);
    assert_close("layernorm", &out, &expected, (2e-6, 2e-6));
    let mut x = f.f32("gelu_exact.x").data;
    scalar::pointwise(&mut PointwiseArgs { function: Pointwise::Gelu, x: &mut x });
    assert_close("gelu_exact", &x, &f.f32("gelu_exact.out").data, (2e-6, 2e-6));
}

#[test]
fn gates_agree_with_the_fixtures() {
    let f = fixture();
    let mut gate = f.f32("swiglu.gate").data;
    let up = f.f32("swiglu.up").data;
    scalar::gated(&mut GatedArgs { activation: Activation::Silu, gate: &mut gate, up: &up });
    assert_close("swiglu", &gate, &f.f32("swiglu.out").data, (2e-6, 2e-6));
    let activations =
        [("silu", Activation::Silu), ("gelu_tanh", Activation::GeluTanh), ("sigmoid", Activation::Sigmoid)];
    for (case, activation) in activations {
        let mut x = f.f32(&format!("{case}.x")).data;
        let ones = vec![1.0; x.len()];
        scalar::gated(&mut GatedArgs { activation, gate: &mut x, up: &ones });
        assert_close(case, &x, &f.f32(&format!("{case}.out")).data, (2e-6, 2e-6));
    }
}

#[test]
fn lengths_that_do_not_fill_the_lanes_are_covered() {
    for len in 0..40 {
        let x: Vec<f32> = (0..len).map(|i| i as f32 - 7.5).collect();
        let mut acc: Vec<f32> = x.iter().map(|x| x * 0.5).collect();
        scalar::add(&mut AddArgs { acc: &mut acc, x: &x });
        assert!(acc.iter().zip(&x).all(|(a, x)| *a == x * 0.5 + x), "{len}");
    }
}

#[test]
fn rope_agrees_with_the_fixtures() {
    let f = fixture();
    for (prefix, pairs) in [("rope_half_", RopePairs::Half), ("rope_interleaved_", RopePairs::Interleaved)] {
        let cases = f.cases(prefix);
        assert_eq!(cases.len(), 3);
        for case in cases {
            let (_, sizes) = case.rsplit_once('_').unwrap();
            let (rotated, head_dim) = sizes.split_once("of").unwrap();
            let (rotated, head_dim): (usize, usize) = (rotated.parse().unwrap(), head_dim.parse().unwrap());
            let theta = f64::from(f.f32(&format!("{case}.theta")).data[0]);
            let inv_freq: Vec<f32> =
                (0..rotated / 2).map(|i| libm::pow(theta, -2.0 * i as f64 / rotated as f64) as f32).collect();
            let (mut cos, mut sin) = (vec![0.0; rotated / 2], vec![0.0; rotated / 2]);
            for (t, &position) in f.i32(&format!("{case}.positions")).data.iter().enumerate() {
                rope_table(position as usize, &inv_freq, 1.0, (&mut cos, &mut sin));
                // The fixtures' own angles are f32 products of slightly different frequencies.
                let absolute = if position > 600 { 5e-4 } else { 1e-4 };
                for name in ["q", "k"] {
                    let mut x = f.f32(&format!("{case}.{name}")).row(t).to_vec();
                    scalar::rope(&mut RopeArgs { x: &mut x, head_dim, pairs, cos: &cos, sin: &sin });
                    let expected = f.f32(&format!("{case}.{name}_out"));
                    assert_close(&format!("{case} {name} {t}"), &x, expected.row(t), (2e-6, absolute));
                }
            }
        }
    }
}

/// Pages that own their memory.
struct Cache {
    shape: KvShape,
    pages: Vec<Vec<f32>>,
    pointers: Vec<*mut f32>,
}

impl Cache {
    fn new(shape: KvShape, positions: usize) -> Cache {
        let mut pages = vec![vec![0.0; shape.page_len()]; positions.div_ceil(PAGE_KEYS)];
        let pointers = pages.iter_mut().map(|page| page.as_mut_ptr()).collect();
        Cache { shape, pages, pointers }
    }

    fn view(&mut self) -> KvPages<'_, f32> {
        assert_eq!(self.pages.len(), self.pointers.len());
        // SAFETY: each page has `page_len` elements, lives as long as `self`, and the test is one thread.
        unsafe { KvPages::from_raw(self.shape, 0, &self.pointers) }
    }

    fn fill(&mut self, k: &[f32], v: &[f32]) {
        let (k_row, v_row) = (self.shape.heads * self.shape.k_dim, self.shape.heads * self.shape.v_dim);
        let pages = self.view();
        for (position, (k, v)) in k.chunks(k_row).zip(v.chunks(v_row)).enumerate() {
            // SAFETY: the test is one thread and holds no slice of the pages.
            unsafe { scalar::append_f32(&mut AppendArgs { pages, position, k, v }) };
        }
    }
}

#[test]
fn attention_agrees_with_the_fixtures() {
    let f = fixture();
    let mut tested = 0;
    for case in f.cases("sdpa_") {
        let number = |name: &str| f.f32(&format!("{case}.{name}")).data[0];
        let sinks = format!("{case}.sinks");
        let sinks = f.has(&sinks).then(|| f.f32(&sinks).data);
        tested += 1;
        let (q, k) = (f.f32(&format!("{case}.q")), f.f32(&format!("{case}.k")));
        let expected = f.f32(&format!("{case}.out"));
        let window = f.i32(&format!("{case}.window")).data[0] as usize;
        let (tokens, heads, positions, kv_heads, dim) =
            (q.shape[0], q.shape[1], k.shape[0], k.shape[1], k.shape[2]);
        let mut cache = Cache::new(KvShape { heads: kv_heads, k_dim: dim, v_dim: dim }, positions);
        cache.fill(&k.data, &f.f32(&format!("{case}.v")).data);
        let group = heads / kv_heads * dim;
        for t in 0..tokens {
            let end = positions - tokens + t + 1;
            let visible = Visible { end, window: (window > 0).then_some(window) };
            for head in 0..kv_heads {
                let mut out = vec![f32::NAN; group];
                scalar::attention_f32(&mut AttentionArgs {
                    pages: cache.view(),
                    head,
                    tokens: 1,
                    visible,
                    scale: number("scale"),
                    soft_cap: Some(number("softcap")).filter(|&cap| cap != 0.0),
                    sinks: sinks.as_ref().map(|sinks| &sinks[head * heads / kv_heads..][..heads / kv_heads]),
                    q: &q.row(t)[head * group..][..group],
                    out: AttentionOut::Whole(&mut out),
                    scratch: &mut AttentionScratch::new(),
                });
                assert_close(
                    &format!("{case} token {t}"),
                    &out,
                    &expected.row(t)[head * group..][..group],
                    (0.0, 1e-5),
                );
            }
        }
    }
    assert_eq!(tested, 9);
}

/// Softmax attention in f64, all keys at once.
fn plain_attention(q: &[f32], k: &[f32], v: &[f32], dim: usize, scale: f64) -> Vec<f64> {
    let scores: Vec<f64> = k
        .chunks(dim)
        .map(|k| k.iter().zip(q).map(|(&k, &q)| f64::from(k) * f64::from(q)).sum::<f64>() * scale)
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let p: Vec<f64> = scores.iter().map(|s| libm::exp(s - max)).collect();
    let sum: f64 = p.iter().sum();
    (0..dim)
        .map(|d| p.iter().zip(v.chunks(dim)).map(|(p, v)| p * f64::from(v[d])).sum::<f64>() / sum)
        .collect()
}

#[test]
fn attention_is_right_across_chunks_and_windows() {
    let (dim, positions) = (24, 600);
    let value = |i: usize| ((i * 7919 % 1013) as f32 - 506.0) / 200.0;
    let k: Vec<f32> = (0..positions * dim).map(value).collect();
    let v: Vec<f32> = (0..positions * dim).map(|i| value(i + 31)).collect();
    let q: Vec<f32> = (0..dim).map(|i| value(3 * i + 5)).collect();
    let mut cache = Cache::new(KvShape { heads: 1, k_dim: dim, v_dim: dim }, positions);
    cache.fill(&k, &v);
    for visible in [0..1, 0..255, 0..256, 0..257, 0..600, 3..17, 250..260, 256..257, 100..599, 511..600] {
        let mut out = vec![f32::NAN; dim];
        let args = &mut AttentionArgs {
            pages: cache.view(),
            head: 0,
            tokens: 1,
            visible: Visible { end: visible.end, window: Some(visible.len()) },
            scale: 0.2,
            soft_cap: None,
            sinks: None,
            q: &q,
            out: AttentionOut::Whole(&mut out),
            scratch: &mut AttentionScratch::new(),
        };
        scalar::attention_f32(args);
        let span = visible.start * dim..visible.end * dim;
        let expected: Vec<f32> = plain_attention(&q, &k[span.clone()], &v[span], dim, f64::from(0.2f32))
            .iter()
            .map(|&x| x as f32)
            .collect();
        assert_close(&format!("{visible:?}"), &out, &expected, (1e-5, 1e-5));
    }
}

#[test]
fn no_visible_key_gives_zeros() {
    let mut cache = Cache::new(KvShape { heads: 1, k_dim: 4, v_dim: 4 }, 1);
    let mut out = [f32::NAN; 4];
    scalar::attention_f32(&mut AttentionArgs {
        pages: cache.view(),
        head: 0,
        tokens: 1,
        visible: Visible { end: 0, window: None },
        scale: 1.0,
        soft_cap: None,
        sinks: None,
        q: &[1.0; 4],
        out: AttentionOut::Whole(&mut out),
        scratch: &mut AttentionScratch::new(),
    });
    assert_eq!(out, [0.0; 4]);
}

fn transposed(x: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|j| x.iter().skip(j).step_by(columns).copied().collect::<Vec<_>>()).collect()
}

#[test]
fn convolutions_agree_with_the_fixtures() {
    let f = fixture();
    let cases: Vec<_> = [("conv_bias_", ConvForm::Plain), ("conv_silu_", ConvForm::Silu)]
        .into_iter()
        .flat_map(|(prefix, form)| f.cases(prefix).into_iter().map(move |case| (case, form)))
        .collect();
    assert_eq!(cases.len(), 6);
    for (case, form) in cases {
        let get = |name: &str| f.f32(&format!("{case}.{name}"));
        let (x, weight) = (get("x"), get("weight"));
        let (tokens, channels, taps) = (x.shape[0], x.shape[1], weight.shape[1]);
        let before = transposed(&get("initial_state").data, taps - 1);
        let mut out = vec![f32::NAN; tokens * channels];
        let mut after = vec![f32::NAN; (taps - 1) * channels];
        scalar::conv(&mut ConvArgs {
            form,
            weight: &transposed(&weight.data, taps),
            bias: Some(&get("bias").data),
            channels,
            before: &before,
            rows: &x.data,
            skip: 0,
            out: &mut out,
            after: Some(&mut after),
        });
        assert_close(case, &out, &get("out").data, (2e-6, 2e-6));
        assert_eq!(after, transposed(&get("final_state").data, taps - 1), "{case}");
    }
}

#[test]
fn gated_norms_agree_with_the_fixtures() {
    let f = fixture();
    let get = |name: &str| f.f32(&format!("rmsnorm_gated.{name}")).data;
    let (x, weight, mut gate) = (get("x"), get("weight"), get("gate"));
    let mut normed = vec![f32::NAN; x.len()];
    scalar::rms_norm(&mut RmsNormArgs { x: &x, weight: &weight, eps: get("eps")[0], out: &mut normed });
    scalar::gated(&mut GatedArgs { activation: Activation::Silu, gate: &mut gate, up: &normed });
    assert_close("rmsnorm_gated", &gate, &get("out"), (2e-6, 2e-6));
}

#[test]
fn norms_of_weights_without_their_one_agree_with_the_fixtures() {
    let f = fixture();
    let get = |name: &str| f.f32(&format!("rmsnorm_one_plus.{name}")).data;
    let x = get("x");
    let weight: Vec<f32> = get("weight").iter().map(|w| 1.0 + w).collect();
    let mut out = vec![f32::NAN; x.len()];
    scalar::rms_norm(&mut RmsNormArgs { x: &x, weight: &weight, eps: get("eps")[0], out: &mut out });
    assert_close("rmsnorm_one_plus", &out, &get("out"), (2e-6, 2e-6));
}

#[test]
fn softplus_agrees_with_the_fixtures() {
    let f = fixture();
    let out: Vec<f32> = f.f32("softplus.x").data.into_iter().map(crate::num::math::softplus).collect();
    assert_close("softplus", &out, &f.f32("softplus.out").data, (2e-6, 2e-6));
}
