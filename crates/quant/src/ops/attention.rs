//! Softmax attention over the pages of a sequence.

use std::ops::Range;

use crate::kv::{KvElem, KvPages};
use crate::num::{LANES, Simd, fma, math};

/// Keys of a chunk. Chunks begin at multiples of this position, whatever is visible.
pub const CHUNK_KEYS: usize = 256;

/// Sixteens of keys in a chunk.
const GROUPS: usize = CHUNK_KEYS / LANES;

/// Arguments of [`attention`].
#[derive(Debug)]
pub struct AttentionArgs<'a, T> {
    /// The pages of the sequence in one layer.
    pub pages: KvPages<'a, T>,
    /// The KV head.
    pub head: usize,
    /// The positions that the queries see.
    pub visible: Range<usize>,
    /// The factor of the scores.
    pub scale: f32,
    /// The queries of one token that share the KV head: `[queries, k_dim]`.
    pub q: &'a [f32],
    /// The results: `[queries, v_dim]`.
    pub out: &'a mut [f32],
}

/// The running state of one query: maximum, sum of the weights. The weighted values stand in the output.
#[derive(Clone, Copy)]
struct Softmax {
    max: f32,
    sum: f32,
}

/// The weights of one chunk for one query, each at its position modulo the chunk.
type Weights = [[f32; LANES]; GROUPS];

/// `out = softmax(scale * q . k) v` over the visible positions; zeros if there are none.
///
/// Scores are FMA chains over increasing elements, times `scale`. Keys are taken in chunks of [`CHUNK_KEYS`] at
/// absolute positions: maximum, `p = exp(score - max)`, 16-lane sum of `p` by position, values as FMA chains over
/// increasing positions. Chunks are merged in increasing order.
///
/// How many queries, keys and elements are worked on side by side depends on the registers of the tier; the order of
/// the operations of each result does not.
///
/// # Panics
/// If the lengths do not fit the shape of the pages or a visible position has no page.
#[inline(always)]
pub fn attention<S: Simd, T: KvElem>(s: S, args: &mut AttentionArgs<'_, T>) {
    let shape = args.pages.shape();
    let queries = args.q.len() / shape.k_dim;
    assert_eq!(args.q.len(), queries * shape.k_dim, "attention: elements of q");
    assert_eq!(args.out.len(), queries * shape.v_dim, "attention: elements of out");
    let mut first = 0;
    while first < queries {
        let left = queries - first;
        first += if S::REGISTERS >= 32 && left >= 4 {
            together::<S, T, 4, 4>(s, args, first)
        } else if S::REGISTERS >= 32 && left >= 2 {
            together::<S, T, 2, 8>(s, args, first)
        } else if S::REGISTERS >= 32 {
            together::<S, T, 1, 8>(s, args, first)
        } else if S::REGISTERS >= 8 && left >= 2 {
            together::<S, T, 2, 2>(s, args, first)
        } else if S::REGISTERS >= 8 {
            together::<S, T, 1, 4>(s, args, first)
        } else {
            together::<S, T, 1, 1>(s, args, first)
        };
    }
}

/// Computes `Q` queries from query `first`, with `G` registers for each; returns `Q`.
#[inline(always)]
fn together<S: Simd, T: KvElem, const Q: usize, const G: usize>(
    s: S,
    args: &mut AttentionArgs<'_, T>,
    first: usize,
) -> usize {
    let shape = args.pages.shape();
    let q = &args.q[first * shape.k_dim..][..Q * shape.k_dim];
    let out = &mut args.out[first * shape.v_dim..][..Q * shape.v_dim];
    out.fill(0.0);
    let mut p = [[[0.0; LANES]; GROUPS]; Q];
    let mut states: Option<[Softmax; Q]> = None;
    let mut from = args.visible.start;
    while from < args.visible.end {
        let to = args.visible.end.min((from / CHUNK_KEYS + 1) * CHUNK_KEYS);
        let part = Part { pages: &args.pages, head: args.head, visible: from..to };
        let max = part.scores::<S, Q, G>(s, q, args.scale, &mut p);
        let mut chunk = [Softmax { max: 0.0, sum: 0.0 }; Q];
        for i in 0..Q {
            chunk[i] = Softmax { max: max[i], sum: part.weights(s, max[i], &mut p[i]) };
        }
        let scales;
        (states, scales) = join(s, states, chunk);
        part.add_values::<S, Q, G>(s, &p, scales, out);
        from = to;
    }
    if let Some(states) = states {
        for (out, state) in out.chunks_exact_mut(shape.v_dim.max(1)).zip(states) {
            let inv = 1.0 / state.sum;
            out.iter_mut().for_each(|o| *o *= inv);
        }
    }
    Q
}

/// The visible positions of one chunk.
struct Part<'a, 'p, T> {
    pages: &'a KvPages<'p, T>,
    head: usize,
    visible: Range<usize>,
}

impl<T: KvElem> Part<'_, '_, T> {
    /// The sixteens of keys with a visible position.
    #[inline(always)]
    fn groups(&self) -> Range<usize> {
        self.visible.start / LANES..self.visible.end.div_ceil(LANES)
    }

    /// Writes the scores, minus infinity for what is not visible; returns the maximum of each query.
    #[inline(always)]
    fn scores<S: Simd, const Q: usize, const G: usize>(
        &self,
        s: S,
        q: &[f32],
        scale: f32,
        p: &mut [Weights; Q],
    ) -> [f32; Q] {
        let mut max = [s.splat(f32::NEG_INFINITY); Q];
        let mut groups = self.groups();
        while groups.len() >= G {
            self.some_scores::<S, Q, G>(s, (q, scale), groups.start, p, &mut max);
            groups.start += G;
        }
        for group in groups {
            self.some_scores::<S, Q, 1>(s, (q, scale), group, p, &mut max);
        }
        let mut reduced = [0.0; Q];
        for i in 0..Q {
            reduced[i] = s.reduce_max(max[i]);
        }
        reduced
    }

    /// The scores of `G` sixteens of keys from the sixteen `group`.
    #[inline(always)]
    fn some_scores<S: Simd, const Q: usize, const G: usize>(
        &self,
        s: S,
        (q, scale): (&[f32], f32),
        group: usize,
        p: &mut [Weights; Q],
        max: &mut [S::F; Q],
    ) {
        let k_dim = self.pages.shape().k_dim;
        let mut keys: [&[[T; LANES]]; G] = [&[]; G];
        for (g, keys) in keys.iter_mut().enumerate() {
            *keys = &self.pages.keys(self.head, (group + g) * LANES)[..k_dim];
        }
        let mut score = [[s.splat(0.0); G]; Q];
        let q = &q[..Q * k_dim];
        for d in 0..k_dim {
            let mut k = [s.splat(0.0); G];
            for g in 0..G {
                k[g] = T::load(s, &keys[g][d]);
            }
            for i in 0..Q {
                let q = s.splat(q[i * k_dim + d]);
                for g in 0..G {
                    score[i][g] = s.fma(q, k[g], score[i][g]);
                }
            }
        }
        for i in 0..Q {
            for g in 0..G {
                let p = &mut p[i][(group + g) % GROUPS];
                s.store(s.mul(score[i][g], s.splat(scale)), p);
                self.hide((group + g) * LANES, p);
                max[i] = s.max(s.load(p), max[i]);
            }
        }
    }

    /// Minus infinity in place of scores of positions from `base` that are not visible.
    #[inline(always)]
    fn hide(&self, base: usize, scores: &mut [f32; LANES]) {
        if base < self.visible.start || base + LANES > self.visible.end {
            for (i, score) in scores.iter_mut().enumerate() {
                if !self.visible.contains(&(base + i)) {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// `p = exp(score - max)` in place of the scores of one query; returns the sum.
    #[inline(always)]
    fn weights<S: Simd>(&self, s: S, max: f32, p: &mut Weights) -> f32 {
        let mut sum = s.splat(0.0);
        for group in self.groups() {
            let p = &mut p[group % GROUPS];
            let weight = math::exp(s, s.sub(s.load(p), s.splat(max)));
            sum = s.add(sum, weight);
            s.store(weight, p);
        }
        s.reduce_add(sum)
    }

    /// Adds the values times their weights to the results of each query.
    #[inline(always)]
    fn add_values<S: Simd, const Q: usize, const G: usize>(
        &self,
        s: S,
        p: &[Weights; Q],
        scales: [Scales; Q],
        out: &mut [f32],
    ) {
        let sixteens = self.pages.shape().v_dim.div_ceil(LANES);
        let mut first = 0;
        while first + G <= sixteens {
            self.some_values::<S, Q, G>(s, p, scales, first, out);
            first += G;
        }
        while first < sixteens {
            self.some_values::<S, Q, 1>(s, p, scales, first, out);
            first += 1;
        }
    }

    /// As [`Part::add_values`] for `G` sixteens of elements from the sixteen `first`.
    #[inline(always)]
    fn some_values<S: Simd, const Q: usize, const G: usize>(
        &self,
        s: S,
        p: &[Weights; Q],
        scales: [Scales; Q],
        first: usize,
        out: &mut [f32],
    ) {
        let mut sums = [[s.splat(0.0); G]; Q];
        for position in self.visible.clone() {
            let value = &self.pages.value(self.head, position)[first..first + G];
            let mut v = [s.splat(0.0); G];
            for g in 0..G {
                v[g] = T::load(s, &value[g]);
            }
            let (group, lane) = (position / LANES % GROUPS, position % LANES);
            for i in 0..Q {
                let p = s.splat(p[i][group][lane]);
                for g in 0..G {
                    sums[i][g] = s.fma(p, v[g], sums[i][g]);
                }
            }
        }
        let v_dim = self.pages.shape().v_dim;
        for i in 0..Q {
            let out = &mut out[i * v_dim..][..v_dim];
            for g in 0..G {
                let end = v_dim.min((first + g + 1) * LANES);
                scales[i].add(s, sums[i][g], &mut out[(first + g) * LANES..end]);
            }
        }
    }
}

/// What the results so far and those of a chunk are multiplied with; `None` for the first chunk.
#[derive(Clone, Copy)]
struct Scales(Option<[f32; 2]>);

impl Scales {
    #[inline(always)]
    fn add<S: Simd>(self, s: S, values: S::F, out: &mut [f32]) {
        let joined = match self.0 {
            None => values,
            Some([old, new]) => s.fma(values, s.splat(new), s.mul(s.load_part(out), s.splat(old))),
        };
        s.store_part(joined, out);
    }
}

/// Joins a chunk to what came before it: `M' = max(M, m)`, both sides scaled by `exp` of the difference.
#[inline(always)]
fn join<S: Simd, const Q: usize>(
    s: S,
    before: Option<[Softmax; Q]>,
    chunk: [Softmax; Q],
) -> (Option<[Softmax; Q]>, [Scales; Q]) {
    let Some(mut states) = before else { return (Some(chunk), [Scales(None); Q]) };
    let mut scales = [Scales(None); Q];
    for i in 0..Q {
        let (before, chunk) = (states[i], chunk[i]);
        let max = if before.max > chunk.max { before.max } else { chunk.max };
        let mut factors = [0.0; LANES];
        (factors[0], factors[1]) = (before.max - max, chunk.max - max);
        let [old, new, ..] = s.to_array(math::exp(s, s.load(&factors)));
        states[i] = Softmax { max, sum: fma(chunk.sum, new, before.sum * old) };
        scales[i] = Scales(Some([old, new]));
    }
    (Some(states), scales)
}
