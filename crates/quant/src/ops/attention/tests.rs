use super::*;
use crate::kv::{self, AppendArgs, KvShape};
use crate::num::{Scalar, fma, math};

const SHAPE: KvShape = KvShape { heads: 2, k_dim: 20, v_dim: 36 };
const POSITIONS: usize = 700;

fn number(i: usize) -> f32 {
    ((i * 7919 % 10_007) as f32 - 5003.0) / 2500.0
}

/// The keys and values of a position, of all heads.
fn row(position: usize) -> [Vec<f32>; 2] {
    let numbers = |len: usize, from: usize| (0..len).map(|i| number(position * 977 + from + i)).collect();
    [numbers(SHAPE.heads * SHAPE.k_dim, 0), numbers(SHAPE.heads * SHAPE.v_dim, 5000)]
}

fn exp(x: f32) -> f32 {
    math::exp(Scalar, [x; LANES])[0]
}

/// The score of a position, by chains of FMA.
fn float_score(q: &[f32], position: usize, head: usize) -> f32 {
    let k = &row(position)[0][head * SHAPE.k_dim..][..SHAPE.k_dim];
    q.iter().zip(k).fold(0.0, |sum, (&q, &k)| fma(q, k, sum))
}

fn float_value(position: usize, head: usize) -> Vec<f32> {
    row(position)[1][head * SHAPE.v_dim..][..SHAPE.v_dim].to_vec()
}

/// The definition for one query, one operation after the other.
fn plain(
    visible: Range<usize>,
    scale: f32,
    score: impl Fn(usize) -> f32,
    value: impl Fn(usize) -> Vec<f32>,
) -> Vec<f32> {
    let v_dim = value(0).len();
    let mut all: Option<(f32, f32, Vec<f32>)> = None;
    for chunk in 0..POSITIONS.div_ceil(256) {
        let keys: Vec<usize> = visible.clone().filter(|position| position / 256 == chunk).collect();
        if keys.is_empty() {
            continue;
        }
        let scores: Vec<f32> = keys.iter().map(|&position| score(position) * scale).collect();
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (mut lanes, mut o) = ([0.0; 16], vec![0.0; v_dim]);
        for (&position, score) in keys.iter().zip(scores) {
            let p = exp(score - max);
            lanes[position % 16] += p;
            o.iter_mut().zip(value(position)).for_each(|(o, v)| *o = fma(p, v, *o));
        }
        for half in [8, 4, 2, 1] {
            (0..half).for_each(|i| lanes[i] += lanes[i + half]);
        }
        let sum = lanes[0];
        all = Some(match all {
            None => (max, sum, o),
            Some((before, before_sum, before_o)) => {
                let joined = before.max(max);
                let (old, new) = (exp(before - joined), exp(max - joined));
                let o = o.iter().zip(&before_o).map(|(&o, &b)| fma(o, new, b * old)).collect();
                (joined, fma(sum, new, before_sum * old), o)
            }
        });
    }
    all.map_or(vec![0.0; v_dim], |(_, sum, o)| o.iter().map(|o| o * (1.0 / sum)).collect())
}

/// Tokens, queries of each, the end of what the first sees, window.
type Case = (usize, usize, usize, Option<usize>);

const CASES: [Case; 12] = [
    (1, 1, 1, None),
    (1, 5, 300, None),
    (7, 1, 250, None),
    (20, 1, 1, None),
    (3, 4, 254, None),
    (9, 2, 64, Some(3)),
    (33, 1, 500, Some(20)),
    (33, 1, 500, Some(300)),
    (6, 3, 511, Some(256)),
    (4, 1, 0, None),
    (2, 1, 700, Some(0)),
    (2, 2, 699, Some(1)),
];

struct Cache {
    _memory: Vec<Vec<f32>>,
    pointers: Vec<*mut f32>,
}

impl Cache {
    fn new() -> Cache {
        let mut memory = vec![vec![f32::NAN; SHAPE.page_len()]; POSITIONS.div_ceil(PAGE_KEYS)];
        let pointers = memory.iter_mut().map(|page| page.as_mut_ptr()).collect();
        let cache = Cache { _memory: memory, pointers };
        for position in 0..POSITIONS {
            let [k, v] = &row(position);
            let args = &mut AppendArgs { pages: cache.pages(), position, k, v };
            // SAFETY: the test is one thread and holds no slice of the pages.
            unsafe { kv::append(Scalar, args) };
        }
        cache
    }

    fn pages(&self) -> KvPages<'_, f32> {
        // SAFETY: each page has `page_len` elements, lives as long as `self`, and the test is one thread.
        unsafe { KvPages::from_raw(SHAPE, 0, &self.pointers) }
    }

    fn attend(&self, (tokens, _, end, window): Case, q: &[f32], out: AttentionOut<'_>) {
        let (pages, visible, scratch) = (self.pages(), Visible { end, window }, &mut AttentionScratch::new());
        attention(
            Scalar,
            &mut AttentionArgs {
                pages,
                head: 1,
                tokens,
                visible,
                scale: 0.3,
                soft_cap: None,
                sinks: None,
                q,
                out,
                scratch,
            },
        );
    }
}

fn queries((tokens, queries, ..): Case) -> Vec<f32> {
    (0..tokens * queries * SHAPE.k_dim).map(|i| number(3 * i + 5)).collect()
}

/// The bits; zeros of either sign are different.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

fn expected(case @ (tokens, per_token, end, window): Case) -> Vec<f32> {
    let q = queries(case);
    let rows = q.chunks_exact(SHAPE.k_dim).enumerate();
    assert_eq!(rows.len(), tokens * per_token);
    rows.flat_map(|(row, q)| {
        let end = end + row / per_token;
        let visible = window.map_or(0, |window| end.saturating_sub(window))..end;
        plain(visible, 0.3, |position| float_score(q, position, 1), |position| float_value(position, 1))
    })
    .collect()
}

#[test]
fn every_row_of_a_tile_has_the_bits_of_the_definition() {
    let cache = Cache::new();
    for case in CASES.into_iter().filter(|(tokens, _, end, _)| end + tokens <= POSITIONS + 1) {
        let mut out = vec![f32::NAN; case.0 * case.1 * SHAPE.v_dim];
        cache.attend(case, &queries(case), AttentionOut::Whole(&mut out));
        assert_eq!(bits(&out), bits(&expected(case)), "{case:?}");
    }
}

#[test]
fn joined_parts_have_the_bits_of_the_whole() {
    let cache = Cache::new();
    for case @ (tokens, per_token, end, window) in
        CASES.into_iter().filter(|(tokens, _, end, _)| end + tokens <= POSITIONS + 1)
    {
        let chunks = Visible { end, window }.chunks(tokens);
        let len = tokens * per_token * part_len(SHAPE.v_dim);
        let mut parts = vec![f32::NAN; chunks.len() * len];
        for (chunk, parts) in chunks.zip(parts.chunks_exact_mut(len)) {
            let chunks = chunk..chunk + 1;
            cache.attend(case, &queries(case), AttentionOut::Parts { chunks, parts });
        }
        let mut out = vec![f32::NAN; tokens * per_token * SHAPE.v_dim];
        merge_attention(
            Scalar,
            &mut MergeArgs { v_dim: SHAPE.v_dim, parts: &parts, sinks: None, out: &mut out },
        );
        assert_eq!(bits(&out), bits(&expected(case)), "{case:?}");
    }
}

#[test]
fn a_token_sees_one_position_more_than_the_one_before() {
    let visible = Visible { end: 300, window: None };
    assert_eq!([visible.of(0), visible.of(3)], [0..300, 0..303]);
    assert_eq!(visible.chunks(1), 0..2);
    let visible = Visible { end: 510, window: Some(4) };
    assert_eq!([visible.of(0), visible.of(3)], [506..510, 509..513]);
    assert_eq!([visible.chunks(3), visible.chunks(4)], [1..2, 1..3]);
    assert_eq!(Visible { end: 2, window: Some(4) }.of(0), 0..2);
}

/// Blocks of q8_0 by the bytes of the weight format: scales and codes.
fn q8_0(x: &[f32]) -> Vec<(f32, [i8; 32])> {
    let mut bytes = vec![0; x.len() / 32 * 34];
    crate::blocks::quantize_row(crate::Format::Q8_0, x, &mut bytes).unwrap();
    let block = |b: &[u8; 34]| {
        let scale = half::f16::from_le_bytes([b[0], b[1]]).to_f32();
        (scale, std::array::from_fn(|i| b[2 + i] as i8))
    };
    bytes.as_chunks().0.iter().map(block).collect()
}

/// A query as activations: scales and codes.
fn quantized_query(x: &[f32]) -> Vec<(f32, [i8; 32])> {
    let block = |x: &[f32; 32]| {
        let amax = x.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
        (amax / 127.0, x.map(|x| (x * (127.0 / amax)).round_ties_even() as i8))
    };
    x.as_chunks().0.iter().map(block).collect()
}

#[test]
fn rows_over_q8_0_have_the_bits_of_the_definition() {
    let shape = KvShape { heads: 2, k_dim: 64, v_dim: 96 };
    let numbers = |len: usize, seed: usize| -> Vec<f32> { (0..len).map(|i| number(seed + 3 * i)).collect() };
    let keys: Vec<Vec<f32>> = (0..300).map(|p| numbers(2 * 64, p * 31)).collect();
    let values: Vec<Vec<f32>> = (0..300).map(|p| numbers(2 * 96, p * 57 + 1)).collect();
    let units = shape.heads * Q8Unit::head_len(shape);
    assert_eq!(KvType::Q8_0.page_bytes(shape), 2 * units);
    let mut memory = vec![vec![Q8Unit(0); units]; 300usize.div_ceil(PAGE_KEYS)];
    let pointers: Vec<*mut Q8Unit> = memory.iter_mut().map(|page| page.as_mut_ptr()).collect();
    // SAFETY: each page has the units of both heads and outlives the view, and the test is one thread.
    let pages = unsafe { KvPages::from_raw(shape, 0, &pointers) };
    for (position, (k, v)) in keys.iter().zip(&values).enumerate() {
        // SAFETY: the test is one thread and holds no slice of the pages.
        unsafe { kv::append_q8_0(Scalar, &mut AppendArgs { pages, position, k, v }) };
    }
    for (head, tokens, queries, end, window) in
        [(0, 1, 1, 300, None), (1, 9, 2, 250, None), (1, 3, 5, 298, Some(50)), (0, 1, 4, 1, None)]
    {
        let q = numbers(tokens * queries * shape.k_dim, 11);
        let mut out = vec![f32::NAN; tokens * queries * shape.v_dim];
        let (visible, scratch) = (Visible { end, window }, &mut AttentionScratch::new());
        let (scale, whole) = (0.02, AttentionOut::Whole(&mut out));
        let args = &mut AttentionArgs {
            pages,
            head,
            tokens,
            visible,
            scale,
            soft_cap: None,
            sinks: None,
            q: &q,
            out: whole,
            scratch,
        };
        attention_q8_0(Scalar, args);
        for (row, (q, out)) in q.chunks(shape.k_dim).zip(out.chunks(shape.v_dim)).enumerate() {
            let q = quantized_query(q);
            let score = |position: usize| {
                let k = q8_0(&keys[position][head * 64..][..64]);
                q.iter().zip(k).fold(0.0, |sum, ((q_scale, q), (k_scale, k))| {
                    let products = q.iter().zip(k).map(|(&q, k)| i32::from(q) * i32::from(k));
                    fma(k_scale * q_scale, products.sum::<i32>() as f32, sum)
                })
            };
            let value = |position: usize| -> Vec<f32> {
                let blocks = q8_0(&values[position][head * 96..][..96]);
                blocks.iter().flat_map(|(scale, codes)| codes.map(|code| f32::from(code) * scale)).collect()
            };
            let expected = plain(visible.of(row / queries), scale, score, value);
            assert_eq!(bits(out), bits(&expected), "{tokens} x {queries}, {visible:?}, row {row}");
        }
    }
}

#[test]
fn heads_that_are_not_whole_blocks_do_not_fit_q8_0() {
    for (k_dim, v_dim, fits) in [(64, 32, true), (24, 32, false), (32, 40, false)] {
        let shape = KvShape { heads: 1, k_dim, v_dim };
        assert_eq!(KvType::Q8_0.fits(shape), fits);
        assert!(KvType::F16.fits(shape) && KvType::F32.fits(shape));
    }
}
