//! The f32 operations of the tiers against the scalar ones.

use crate::rng::Rng;
use cera_quant::kernels::Ops;
use cera_quant::kv::{AppendArgs, KvPages, KvShape, KvUnit, PAGE_KEYS, Q8Unit};
use cera_quant::ops::{
    Activation, AddArgs, AddScaledArgs, AttentionArgs, AttentionOut, AttentionScratch, ConvArgs, ConvForm,
    GatedArgs, LayerNormArgs, MergeArgs, Pointwise, PointwiseArgs, RmsNormArgs, RopeArgs, RopePairs,
    RouteArgs, RouteScratch, Routing, RoutingGroups, Scores, Visible, part_len,
};
use cera_quant::scalar;

use super::{Tier, difference};

/// Every length of a tail, with and without whole registers before it.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=40).chain([63, 64, 65, 100, 576, 1023])
}

/// Numbers of all sizes, among them subnormals of f32 and of f16, and ties between two neighbours in f16.
fn values(len: usize, rng: &mut Rng) -> Vec<f32> {
    let value = |_| match rng.below(14) {
        0 => 0.0,
        1 => -0.0,
        2 => rng.unit() * 6e4,
        3 => rng.unit() * 1e-38,
        4 => rng.unit() * 100.0,
        5 => rng.unit() * 6e-5,
        6 => f32::from_bits(rng.normal().to_bits() & !0x1fff | 0x1000),
        _ => rng.normal(),
    };
    (0..len).map(value).collect()
}

/// Runs a case on every tier and collects what differs from the scalar result.
pub(super) fn check(
    tiers: &[Tier],
    failures: &mut Vec<String>,
    case: &str,
    expected: &[f32],
    run: impl Fn(&Tier) -> Vec<f32>,
) {
    assert!(expected.iter().all(|x| !x.is_nan()), "{case}: NaN prove nothing");
    for tier in tiers {
        failures.extend(difference(&run(tier), expected).map(|d| format!("{} {case}: {d}", tier.label)));
    }
}

/// The test of that name.
pub fn norms_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(1), Vec::new());
    for len in lengths().filter(|&len| len > 0) {
        let (x, weight) = (values(3 * len, &mut rng), values(len, &mut rng));
        let norm = |run: &dyn Fn(&mut RmsNormArgs<'_>)| {
            let mut out = vec![f32::NAN; x.len()];
            run(&mut RmsNormArgs { x: &x, weight: &weight, eps: 1e-5, out: &mut out });
            out
        };
        let expected = norm(&scalar::ops::rms_norm);
        check(tiers, &mut failures, &format!("{len}"), &expected, |tier| {
            // SAFETY: the tier is available.
            norm(&|args| unsafe { (tier.kernels.ops.rms_norm)(args) })
        });
        let bias = values(len, &mut rng);
        let norm = |run: &dyn Fn(&mut LayerNormArgs<'_>)| {
            let mut out = vec![f32::NAN; x.len()];
            run(&mut LayerNormArgs { x: &x, weight: &weight, bias: &bias, eps: 1e-5, out: &mut out });
            out
        };
        let expected = norm(&scalar::ops::layer_norm);
        check(tiers, &mut failures, &format!("layer {len}"), &expected, |tier| {
            // SAFETY: the tier is available.
            norm(&|args| unsafe { (tier.kernels.ops.layer_norm)(args) })
        });
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn sums_and_gates_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(2), Vec::new());
    for len in lengths() {
        let (x, y) = (values(len, &mut rng), values(len, &mut rng));
        let add = |run: &dyn Fn(&mut AddArgs<'_>)| {
            let mut acc = x.clone();
            run(&mut AddArgs { acc: &mut acc, x: &y });
            acc
        };
        let expected = add(&scalar::ops::add);
        check(tiers, &mut failures, &format!("add {len}"), &expected, |tier| {
            // SAFETY: the tier is available.
            add(&|args| unsafe { (tier.kernels.ops.add)(args) })
        });
        let add_scaled = |run: &dyn Fn(&mut AddScaledArgs<'_>)| {
            let mut acc = x.clone();
            run(&mut AddScaledArgs { acc: &mut acc, x: &y, factor: 0.3 });
            acc
        };
        let expected = add_scaled(&scalar::ops::add_scaled);
        check(tiers, &mut failures, &format!("add_scaled {len}"), &expected, |tier| {
            // SAFETY: the tier is available.
            add_scaled(&|args| unsafe { (tier.kernels.ops.add_scaled)(args) })
        });
        let activations =
            [Activation::Silu, Activation::GeluTanh, Activation::ClampedSilu, Activation::Sigmoid];
        for activation in activations {
            let gated = |run: &dyn Fn(&mut GatedArgs<'_>)| {
                let mut gate = x.clone();
                run(&mut GatedArgs { activation, gate: &mut gate, up: &y });
                gate
            };
            let expected = gated(&scalar::ops::gated);
            check(tiers, &mut failures, &format!("{activation:?} {len}"), &expected, |tier| {
                // SAFETY: the tier is available.
                gated(&|args| unsafe { (tier.kernels.ops.gated)(args) })
            });
        }
        for function in [
            Pointwise::Scale(0.3),
            Pointwise::Scale(-1e-3),
            Pointwise::SoftCap(30.0),
            Pointwise::Sigmoid,
            Pointwise::Gelu,
        ] {
            let pointwise = |run: &dyn Fn(&mut PointwiseArgs<'_>)| {
                let mut x = x.clone();
                run(&mut PointwiseArgs { function, x: &mut x });
                x
            };
            let expected = pointwise(&scalar::ops::pointwise);
            check(tiers, &mut failures, &format!("{function:?} {len}"), &expected, |tier| {
                // SAFETY: the tier is available.
                pointwise(&|args| unsafe { (tier.kernels.ops.pointwise)(args) })
            });
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn choices_of_experts_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(6), Vec::new());
    for experts in (1..40).chain([64, 128, 160, 256, 500, 512]) {
        for scores in [Scores::Softmax, Scores::Sigmoid, Scores::ChosenSoftmax] {
            let logits: Vec<f32> = (0..experts).map(|_| 3.0 * rng.normal()).collect();
            let bias = values(experts, &mut rng);
            let groups = (experts % 8 == 0).then_some(RoutingGroups { count: 8, chosen: 3 });
            let chosen = 1 + rng.below(experts / groups.map_or(1, |_| 8));
            let renormalise = (experts % 2 == 0).then_some(1e-20);
            let routing = Routing { scores, chosen, groups, renormalise, scale: 1.5 };
            let bias = (experts % 3 == 0).then_some(&bias[..]);
            let route = |run: &dyn Fn(&mut RouteArgs<'_>)| {
                let mut out = vec![f32::NAN; 2 * chosen];
                let scratch = &mut RouteScratch::new();
                run(&mut RouteArgs { routing, logits: &logits, bias, out: &mut out, scratch });
                out
            };
            let expected = route(&scalar::ops::route);
            check(tiers, &mut failures, &format!("{routing:?} of {experts}"), &expected, |tier| {
                // SAFETY: the tier is available.
                route(&|args| unsafe { (tier.kernels.ops.route)(args) })
            });
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn rotations_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(3), Vec::new());
    for p in lengths() {
        for (pairs, rest) in [(RopePairs::Half, 0), (RopePairs::Half, 5), (RopePairs::Interleaved, 3)] {
            let head_dim = (2 * p + rest).max(1);
            let x = values(3 * head_dim, &mut rng);
            let (cos, sin) = (values(p, &mut rng), values(p, &mut rng));
            let rope = |run: &dyn Fn(&mut RopeArgs<'_>)| {
                let mut x = x.clone();
                run(&mut RopeArgs { x: &mut x, head_dim, pairs, cos: &cos, sin: &sin });
                x
            };
            let expected = rope(&scalar::ops::rope);
            check(tiers, &mut failures, &format!("{pairs:?} {p} of {head_dim}"), &expected, |tier| {
                // SAFETY: the tier is available.
                rope(&|args| unsafe { (tier.kernels.ops.rope)(args) })
            });
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn convolutions_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(5), Vec::new());
    let cases = [
        (ConvForm::Gated, 1, 2, 0),
        (ConvForm::Gated, 3, 5, 2),
        (ConvForm::Silu, 4, 6, 1),
        (ConvForm::Plain, 4, 1, 0),
    ];
    for channels in lengths().filter(|&channels| channels > 0) {
        for (form, taps, rows, skip) in cases {
            let x = values(rows * form.parts() * channels, &mut rng);
            let (weight, bias) = (values(taps * channels, &mut rng), values(channels, &mut rng));
            let bias = (form != ConvForm::Gated).then_some(&bias[..]);
            let before = values((taps - 1) * channels, &mut rng);
            let convolve = |run: &dyn Fn(&mut ConvArgs<'_>)| {
                let mut out = vec![f32::NAN; (rows - skip) * channels];
                let mut after = vec![f32::NAN; before.len()];
                run(&mut ConvArgs {
                    form,
                    weight: &weight,
                    bias,
                    channels,
                    before: &before,
                    rows: &x,
                    skip,
                    out: &mut out,
                    after: Some(&mut after),
                });
                out.extend(after);
                out
            };
            let expected = convolve(&scalar::ops::conv);
            let case = format!("{form:?}, {taps} taps, {rows} rows of {channels} after {skip}");
            check(tiers, &mut failures, &case, &expected, |tier| {
                // SAFETY: the tier is available.
                convolve(&|args| unsafe { (tier.kernels.ops.conv)(args) })
            });
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The functions on one type of the cache.
trait Elem: KvUnit + PartialEq {
    const ZERO: Self;
    fn scalar_append(args: &mut AppendArgs<'_, Self>);
    fn scalar_attention(args: &mut AttentionArgs<'_, Self>);
    fn append(ops: &Ops) -> for<'a> unsafe fn(&mut AppendArgs<'a, Self>);
    fn attention(ops: &Ops) -> for<'a> unsafe fn(&mut AttentionArgs<'a, Self>);
}

macro_rules! elem {
    ($elem:ty, $zero:expr, $append:ident, $attention:ident) => {
        impl Elem for $elem {
            const ZERO: $elem = $zero;
            fn scalar_append(args: &mut AppendArgs<'_, $elem>) {
                // SAFETY: the test is one thread.
                unsafe { scalar::ops::$append(args) };
            }
            fn scalar_attention(args: &mut AttentionArgs<'_, $elem>) {
                scalar::ops::$attention(args);
            }
            fn append(ops: &Ops) -> for<'a> unsafe fn(&mut AppendArgs<'a, $elem>) {
                ops.$append
            }
            fn attention(ops: &Ops) -> for<'a> unsafe fn(&mut AttentionArgs<'a, $elem>) {
                ops.$attention
            }
        }
    };
}

elem!(f32, 0.0, append_f32, attention_f32);
elem!(u16, 0, append_f16, attention_f16);
elem!(Q8Unit, Q8Unit(0), append_q8_0, attention_q8_0);

/// A filled cache.
fn fill<T: Elem>(
    shape: KvShape,
    rows: &[(Vec<f32>, Vec<f32>)],
    append: impl Fn(&mut AppendArgs<'_, T>),
) -> Vec<Vec<T>> {
    let mut memory = vec![vec![T::ZERO; shape.heads * T::head_len(shape)]; rows.len().div_ceil(PAGE_KEYS)];
    let pointers: Vec<*mut T> = memory.iter_mut().map(|page| page.as_mut_ptr()).collect();
    // SAFETY: each page has the units of every head; one thread uses them, one position at a time.
    let pages = unsafe { KvPages::from_raw(shape, 0, &pointers) };
    for (position, (k, v)) in rows.iter().enumerate() {
        append(&mut AppendArgs { pages, position, k, v });
    }
    memory
}

/// Tiles of several tokens, whole and in parts.
fn tile_cases<T: Elem>(tiers: &[Tier], failures: &mut Vec<String>, pages: KvPages<'_, T>, rng: &mut Rng) {
    let KvShape { k_dim, v_dim, .. } = pages.shape();
    let tiles = [
        (2, 1, 1, None, None),
        (5, 3, 250, None, Some(30.0)),
        (17, 1, 500, Some(40), None),
        (9, 2, 590, Some(300), Some(1.5)),
        (3, 4, 255, Some(1), None),
    ];
    for (tokens, queries, end, window, soft_cap) in tiles {
        let sinks = values(queries, rng);
        let sinks = (tokens % 2 == 1).then_some(&sinks[..]);
        let q = values(tokens * queries * k_dim, rng);
        let visible = Visible { end, window };
        let attend = |out: AttentionOut<'_>, run: &dyn Fn(&mut AttentionArgs<'_, T>)| {
            let (scale, scratch) = (0.05, &mut AttentionScratch::new());
            run(&mut AttentionArgs {
                pages,
                head: 0,
                tokens,
                visible,
                scale,
                soft_cap,
                sinks,
                q: &q,
                out,
                scratch,
            });
        };
        let mut expected = vec![f32::NAN; tokens * queries * v_dim];
        attend(AttentionOut::Whole(&mut expected), &T::scalar_attention);
        let case = format!("{tokens} x {queries} of {k_dim} and {v_dim}, {visible:?}, cap {soft_cap:?}");
        for tier in tiers {
            let ops = &tier.kernels.ops;
            // SAFETY: the tier is available.
            let run = |args: &mut AttentionArgs<'_, T>| unsafe { T::attention(ops)(args) };
            let mut whole = vec![f32::NAN; expected.len()];
            attend(AttentionOut::Whole(&mut whole), &run);
            let chunks = visible.chunks(tokens);
            let mut parts = vec![f32::NAN; chunks.len() * tokens * queries * part_len(v_dim)];
            attend(AttentionOut::Parts { chunks, parts: &mut parts }, &run);
            let mut merged = vec![f32::NAN; expected.len()];
            // SAFETY: the tier is available.
            unsafe {
                (ops.merge_attention)(&mut MergeArgs { v_dim, parts: &parts, sinks, out: &mut merged })
            };
            for (how, got) in [("whole", whole), ("merged", merged)] {
                failures
                    .extend(difference(&got, &expected).map(|d| format!("{} {case} {how}: {d}", tier.label)));
            }
        }
    }
}

fn attention_cases<T: Elem>(tiers: &[Tier], failures: &mut Vec<String>) {
    let mut rng = Rng::new(4);
    let shapes = [(1, 1), (7, 16), (16, 7), (24, 33), (64, 64), (80, 128), (128, 96), (32, 160)];
    for (k_dim, v_dim) in shapes {
        let shape = KvShape { heads: 2, k_dim, v_dim };
        if !T::TYPE.fits(shape) {
            continue;
        }
        let rows: Vec<_> =
            (0..600).map(|_| (values(2 * k_dim, &mut rng), values(2 * v_dim, &mut rng))).collect();
        let mut memory = fill::<T>(shape, &rows, T::scalar_append);
        for tier in tiers {
            // SAFETY: the tier is available.
            let got = fill::<T>(shape, &rows, |args| unsafe { T::append(&tier.kernels.ops)(args) });
            if got != memory {
                failures.push(format!("{} append {shape:?}", tier.label));
            }
        }
        let pointers: Vec<*mut T> = memory.iter_mut().map(|page| page.as_mut_ptr()).collect();
        // SAFETY: each page has the units of every head, and one thread reads them.
        let pages = unsafe { KvPages::from_raw(shape, 0, &pointers) };
        tile_cases::<T>(tiers, failures, pages, &mut rng);
        for queries in 1..=9 {
            let visible = [
                0..0,
                0..1,
                0..15,
                0..16,
                0..17,
                0..64,
                0..255,
                0..257,
                0..600,
                3..17,
                19..30,
                250..260,
                100..599,
            ];
            let visible = if queries < 8 { visible[rng.below(6)..].to_vec() } else { visible.to_vec() };
            for visible in visible.into_iter().step_by(1 + rng.below(3)) {
                let q = values(queries * k_dim, &mut rng);
                let scale = 0.1 * rng.unit();
                let attend = |run: &dyn Fn(&mut AttentionArgs<'_, T>)| {
                    let mut out = vec![f32::NAN; queries * v_dim];
                    run(&mut AttentionArgs {
                        pages,
                        head: 1,
                        tokens: 1,
                        visible: Visible { end: visible.end, window: Some(visible.len()) },
                        scale,
                        soft_cap: None,
                        sinks: None,
                        q: &q,
                        out: AttentionOut::Whole(&mut out),
                        scratch: &mut AttentionScratch::new(),
                    });
                    out
                };
                let expected = attend(&T::scalar_attention);
                let case = format!("{queries} queries of {k_dim} and {v_dim}, {visible:?}");
                check(tiers, failures, &case, &expected, |tier| {
                    // SAFETY: the tier is available.
                    attend(&|args| unsafe { T::attention(&tier.kernels.ops)(args) })
                });
            }
        }
    }
}

/// The test of that name.
pub fn attention_over_f32_has_the_scalar_bits(tiers: &[Tier]) {
    let mut failures = Vec::new();
    attention_cases::<f32>(tiers, &mut failures);
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn attention_over_f16_has_the_scalar_bits(tiers: &[Tier]) {
    let mut failures = Vec::new();
    attention_cases::<u16>(tiers, &mut failures);
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn attention_over_q8_0_has_the_scalar_bits(tiers: &[Tier]) {
    let mut failures = Vec::new();
    attention_cases::<Q8Unit>(tiers, &mut failures);
    assert!(failures.is_empty(), "{failures:#?}");
}
