use cera_testkit::fixtures::Fixture;
use cera_testkit::rng::Rng;
use proptest::prelude::*;

use super::*;
use crate::args::OutMat;
use crate::scalar::ops::delta_rule;

const EPS: f32 = 1e-6;

/// Random inputs of some tokens. States are `[v_heads, k_dim, v_dim]`.
struct Case {
    rule: DeltaRule,
    rows: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    a_scale: Vec<f32>,
    a_bias: Vec<f32>,
    state: Vec<f32>,
}

/// A state as the operation keeps it.
fn tiled(shape: DeltaShape, state: &[f32]) -> Vec<f32> {
    let mut tiled = vec![0.0; shape.state_len()];
    for (i, &x) in state.iter().enumerate() {
        let (head, k, v) = (i / shape.v_dim / shape.k_dim, i / shape.v_dim % shape.k_dim, i % shape.v_dim);
        let tile = head * shape.tiles() + v / LANES;
        tiled[(tile * shape.k_dim + k) * LANES + v % LANES] = x;
    }
    tiled
}

impl Case {
    fn new((k_heads, v_heads, k_dim, v_dim): (usize, usize, usize, usize), n: usize, seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let order = if seed.is_multiple_of(2) { HeadOrder::Grouped } else { HeadOrder::Tiled };
        let shape = DeltaShape { k_heads, v_heads, k_dim, v_dim, order };
        let norm = [QkNorm::L2 { eps: EPS }, QkNorm::Rms { eps: EPS }, QkNorm::None][rng.below(3)];
        let rule = DeltaRule { shape, norm, q_scale: 1.0 / (k_dim as f32).sqrt(), k_scale: 0.25 };
        let mut normal = |len: usize, scale: f32| (0..len).map(|_| scale * rng.normal()).collect::<Vec<_>>();
        Case {
            rule,
            rows: normal(n * shape.row_len(), 0.7),
            a: normal(n * v_heads, 1.0),
            b: normal(n * v_heads, 1.0),
            a_scale: normal(v_heads, 1.0).into_iter().map(|x| -x.abs()).collect(),
            a_bias: normal(v_heads, 1.0),
            state: normal(v_heads * k_dim * v_dim, 0.5),
        }
    }

    /// The operation on some tokens, each head in pieces of so many tiles: the results and the state after them.
    fn run(&self, tokens: Range<usize>, pieces: usize, state: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let shape = self.rule.shape;
        let (n, width, heads) = (tokens.len(), shape.out_len(), shape.v_heads);
        let mut out = vec![f32::NAN; n * width];
        let mut after = vec![f32::NAN; state.len()];
        let mut scratch = Vec::new();
        for head in 0..heads {
            for first in (0..shape.tiles()).step_by(pieces.min(shape.tiles())) {
                let tiles = first..shape.tiles().min(first.saturating_add(pieces));
                let at = head * shape.tiles();
                let span = (at + tiles.start) * shape.tile_len()..(at + tiles.end) * shape.tile_len();
                let column = head * shape.v_dim + tiles.start * LANES;
                let columns = shape.v_dim.min(tiles.end * LANES) - tiles.start * LANES;
                let to = out.as_mut_ptr().wrapping_add(column);
                delta_rule(&mut DeltaRuleArgs {
                    rule: self.rule,
                    rows: &self.rows[tokens.start * shape.row_len()..tokens.end * shape.row_len()],
                    a: &self.a[tokens.start * heads..tokens.end * heads],
                    b: &self.b[tokens.start * heads..tokens.end * heads],
                    a_scale: &self.a_scale,
                    a_bias: &self.a_bias,
                    scratch: &mut scratch,
                    piece: ScanPiece {
                        head,
                        tiles,
                        before: &state[span.clone()],
                        after: &mut after[span],
                        // SAFETY: the columns lie inside of the rows of `out`, and the test is one thread.
                        out: unsafe { OutMat::from_raw(to, n, columns, width) },
                    },
                });
            }
        }
        (out, after)
    }

    /// The definition in f64 from the state of the case: the results and the state after them.
    fn oracle(&self, tokens: usize) -> (Vec<f64>, Vec<f64>) {
        let DeltaRule { shape, norm, q_scale, k_scale } = self.rule;
        let (dk, dv) = (shape.k_dim, shape.v_dim);
        let mut state: Vec<f64> = self.state.iter().copied().map(f64::from).collect();
        let mut out = Vec::new();
        for t in 0..tokens {
            let row: Vec<f64> =
                self.rows[t * shape.row_len()..][..shape.row_len()].iter().copied().map(f64::from).collect();
            let unit = |from: usize, scale: f32| -> Vec<f64> {
                let x = &row[from..from + dk];
                let sum: f64 = x.iter().map(|x| x * x).sum();
                let divisor = match norm {
                    QkNorm::None => 1.0,
                    QkNorm::L2 { eps } => (sum + f64::from(eps)).sqrt(),
                    QkNorm::Rms { eps } => (sum / dk as f64 + f64::from(eps)).sqrt(),
                };
                x.iter().map(|x| x / divisor * f64::from(scale)).collect()
            };
            for (head, state) in state.chunks_mut(dk * dv).enumerate() {
                let k_head = match shape.order {
                    HeadOrder::Grouped => head / (shape.v_heads / shape.k_heads),
                    HeadOrder::Tiled => head % shape.k_heads,
                };
                let (q, k) = (unit(k_head * dk, q_scale), unit((shape.k_heads + k_head) * dk, k_scale));
                let v = &row[2 * shape.k_heads * dk + head * dv..][..dv];
                let at = t * shape.v_heads + head;
                let a = f64::from(self.a[at]) + f64::from(self.a_bias[head]);
                let decay = libm::exp(f64::from(self.a_scale[head]) * libm::log1p(libm::exp(a)));
                let beta = 1.0 / (1.0 + libm::exp(-f64::from(self.b[at])));
                state.iter_mut().for_each(|x| *x *= decay);
                let product = |state: &[f64], with: &[f64], v: usize| -> f64 {
                    (0..dk).map(|i| state[i * dv + v] * with[i]).sum()
                };
                let delta: Vec<f64> = (0..dv).map(|i| beta * (v[i] - product(state, &k, i))).collect();
                for (i, x) in state.iter_mut().enumerate() {
                    *x += k[i / dv] * delta[i % dv];
                }
                out.extend((0..dv).map(|i| product(state, &q, i)));
            }
        }
        (out, state)
    }
}

fn assert_near(what: &str, got: &[f32], expected: &[f64], bound: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (&got, expected)) in got.iter().zip(expected).enumerate() {
        let near = (f64::from(got) - expected).abs() <= bound * (1.0 + expected.abs());
        assert!(near, "{what}, element {i}: {got} for {expected}");
    }
}

#[test]
fn results_are_those_of_the_definition() {
    let shapes = [(1, 1, 4, 16), (2, 4, 16, 16), (2, 6, 7, 33), (1, 3, 1, 1), (3, 3, 34, 40), (2, 4, 32, 32)];
    for (i, shape) in shapes.into_iter().enumerate() {
        for n in [1, 2, 31, 32, 33, 70] {
            let case = Case::new(shape, n, (7 * i + n) as u64);
            let (out, state) = case.run(0..n, usize::MAX, &tiled(case.rule.shape, &case.state));
            let (expected, last) = case.oracle(n);
            let what = format!("{:?}, {n} tokens", case.rule);
            assert_near(&what, &out, &expected, 2e-5);
            let last: Vec<f32> = last.into_iter().map(|x| x as f32).collect();
            let last: Vec<f64> = tiled(case.rule.shape, &last).into_iter().map(f64::from).collect();
            assert_near(&what, &state, &last, 2e-5);
        }
    }
}

#[test]
fn the_fixtures_agree() {
    let f = Fixture::open("ops/ops.safetensors");
    let cases = f.cases("gdr_");
    assert!(!cases.is_empty());
    for name in cases {
        let get = |field: &str| f.f32(&format!("{name}.{field}"));
        let (q, k, v) = (get("q"), get("k"), get("v"));
        let (n, k_heads, k_dim) = (q.shape[0], q.shape[1], q.shape[2]);
        let (v_heads, v_dim) = (v.shape[1], v.shape[2]);
        let shape = DeltaShape { k_heads, v_heads, k_dim, v_dim, order: HeadOrder::Grouped };
        let norm = match f.i32(&format!("{name}.l2norm")).data[0] {
            0 => QkNorm::None,
            _ => QkNorm::L2 { eps: EPS },
        };
        let rows = (0..n).flat_map(|t| [q.row(t), k.row(t), v.row(t)].concat()).collect();
        // The fixtures have what comes of `a` and `b`: softplus and sigmoid are undone in f64.
        let a = get("g").data.into_iter().map(|g| libm::log(libm::expm1(-f64::from(g))).max(-80.0) as f32);
        let b = get("beta").data.into_iter().map(|x| libm::log(f64::from(x) / (1.0 - f64::from(x))) as f32);
        let case = Case {
            rule: DeltaRule { shape, norm, q_scale: 1.0 / (k_dim as f32).sqrt(), k_scale: 1.0 },
            rows,
            a: a.collect(),
            b: b.collect(),
            a_scale: vec![-1.0; v_heads],
            a_bias: vec![0.0; v_heads],
            state: get("initial_state").data,
        };
        let (out, state) = case.run(0..n, usize::MAX, &tiled(shape, &case.state));
        let expected: Vec<f64> = get("out").data.into_iter().map(f64::from).collect();
        for (got, expected) in out.iter().zip(&expected) {
            assert!((f64::from(*got) - expected).abs() <= 1e-5, "{name}: {got} for {expected}");
        }
        for (got, expected) in state.iter().zip(tiled(shape, &get("final_state").data)) {
            assert!((got - expected).abs() <= 1e-5, "{name}: state {got} for {expected}");
        }
    }
}

#[test]
fn norms_of_keys_agree_with_the_fixtures() {
    let f = Fixture::open("ops/ops.safetensors");
    let (x, eps) = (f.f32("l2norm.x"), f.f32("l2norm.eps").data[0]);
    let expected = f.f32("l2norm.out");
    let k_dim = *x.shape.last().unwrap();
    for (x, expected) in x.data.chunks(k_dim).zip(expected.data.chunks(k_dim)) {
        let shape = DeltaShape { k_heads: 1, v_heads: 1, k_dim, v_dim: 1, order: HeadOrder::Grouped };
        let case = Case {
            rule: DeltaRule { shape, norm: QkNorm::L2 { eps }, q_scale: 1.0, k_scale: 1.0 },
            rows: [x, x, &[1.0]].concat(),
            a: vec![0.0],
            // So large that nothing but the key stands between the value of one and the state.
            b: vec![100.0],
            a_scale: vec![-1.0],
            a_bias: vec![0.0],
            state: vec![0.0; k_dim],
        };
        let (_, state) = case.run(0..1, 1, &tiled(shape, &case.state));
        for (got, expected) in state.iter().step_by(LANES).zip(expected) {
            assert!((got - expected).abs() <= 2e-6 + 2e-6 * expected.abs(), "{got} for {expected}");
        }
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an oracle shares no code with what is tested")]
fn the_order_of_operations_is_the_stated_one() {
    let case = Case::new((1, 1, 6, 2), 1, 40);
    let (out, after) = case.run(0..1, 1, &tiled(case.rule.shape, &case.state));
    let rule = DeltaRule { norm: QkNorm::None, q_scale: 1.0, k_scale: 1.0, ..case.rule };
    assert_eq!(rule.shape.row_len(), 14);
    let factor = |x: &[f32], scale: f32| -> Vec<f32> {
        // Six elements are in lanes of their own; the tree adds those that are 4, then 2, then 1 apart.
        let s: Vec<f32> = x.iter().map(|x| x.mul_add(*x, 0.0)).collect();
        let sum = ((s[0] + s[4]) + s[2]) + ((s[1] + s[5]) + s[3]);
        let inv = match case.rule.norm {
            QkNorm::None => 1.0,
            QkNorm::L2 { eps } => 1.0 / (sum + eps).sqrt(),
            QkNorm::Rms { eps } => 1.0 / (sum / 6.0 + eps).sqrt(),
        };
        x.iter().map(|x| x * inv * scale).collect()
    };
    let (q, k) = (factor(&case.rows[..6], case.rule.q_scale), factor(&case.rows[6..12], case.rule.k_scale));
    let softplus = libm::log1p(libm::exp(f64::from(case.a[0] + case.a_bias[0]))) as f32;
    let lanes = |x: f32| crate::num::Scalar.splat(x);
    let decay = math::exp(crate::num::Scalar, lanes(case.a_scale[0] * softplus))[0];
    let beta = math::sigmoid(crate::num::Scalar, lanes(case.b[0]))[0];
    for v in 0..2 {
        let mut s: Vec<f32> = (0..6).map(|i| case.state[2 * i + v] * decay).collect();
        let product = |s: &[f32], x: &[f32]| {
            let first: Vec<f32> = (0..4).map(|c| s[c].mul_add(x[c], 0.0)).collect();
            (s[4].mul_add(x[4], first[0]) + s[5].mul_add(x[5], first[1])) + (first[2] + first[3])
        };
        let delta = beta * (case.rows[12 + v] - product(&s, &k));
        for i in 0..6 {
            s[i] = k[i].mul_add(delta, s[i]);
            assert_eq!(after[LANES * i + v].to_bits(), s[i].to_bits(), "state {i}");
        }
        assert_eq!(out[v].to_bits(), product(&s, &q).to_bits(), "element {v}");
    }
}

proptest! {
    #[test]
    fn cuts_into_runs_and_tiles_change_no_bit(
        (k_heads, per_key) in (1usize..3, 1usize..3),
        (k_dim, v_dim) in (1usize..20, 1usize..70),
        runs in prop::collection::vec(0usize..40, 1..5),
        pieces in 1usize..5,
        seed: u64,
    ) {
        let n = runs.iter().sum();
        let case = Case::new((k_heads, k_heads * per_key, k_dim, v_dim), n, seed);
        let mut state = tiled(case.rule.shape, &case.state);
        let (whole, last) = case.run(0..n, usize::MAX, &state);
        let (mut cut, mut start) = (Vec::new(), 0);
        for len in runs {
            let (out, next) = case.run(start..start + len, pieces, &state);
            cut.extend(out);
            (state, start) = (next, start + len);
        }
        prop_assert_eq!(bits(&whole), bits(&cut));
        prop_assert_eq!(bits(&last), bits(&state));
    }
}
