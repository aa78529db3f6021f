//! The measurements.

#![allow(clippy::print_stdout, reason = "prints its results")]

use cera_quant::kernels::{Ops, TierKernels};
use cera_quant::kv::{AppendArgs, KvPages, KvShape, KvUnit, PAGE_KEYS, Q8Unit};
use cera_quant::ops::{AttentionArgs, AttentionOut, AttentionScratch, Visible};
use cera_testkit::clock::best;
use cera_testkit::rng::Rng;

/// Positions of the cache.
const DEPTH: usize = 8192;

/// GMAC/s of f32 FMA: a dot instruction has four products where FMA has one.
fn peak(kernels: &TierKernels) -> f64 {
    const ROUNDS: usize = 1 << 16;
    let dots = kernels.dots.expect("an instruction for dot products");
    // SAFETY: this program is for machines with all tiers; on others it ends with an illegal instruction.
    let time = best(100, || unsafe { (dots.run)(ROUNDS) });
    (ROUNDS * dots.macs) as f64 / time / 4e9
}

/// A type of the cache.
trait Cached: KvUnit + Default {
    fn append(ops: &Ops) -> for<'a> unsafe fn(&mut AppendArgs<'a, Self>);
    fn attention(ops: &Ops) -> for<'a> unsafe fn(&mut AttentionArgs<'a, Self>);
}

impl Cached for u16 {
    fn append(ops: &Ops) -> for<'a> unsafe fn(&mut AppendArgs<'a, u16>) {
        ops.append_f16
    }

    fn attention(ops: &Ops) -> for<'a> unsafe fn(&mut AttentionArgs<'a, u16>) {
        ops.attention_f16
    }
}

impl Cached for Q8Unit {
    fn append(ops: &Ops) -> for<'a> unsafe fn(&mut AppendArgs<'a, Q8Unit>) {
        ops.append_q8_0
    }

    fn attention(ops: &Ops) -> for<'a> unsafe fn(&mut AttentionArgs<'a, Q8Unit>) {
        ops.attention_q8_0
    }
}

/// A cache of random numbers.
struct Cache<T> {
    shape: KvShape,
    pointers: Vec<*mut T>,
}

impl<T: Cached> Cache<T> {
    fn new(ops: &Ops, shape: KvShape) -> Cache<T> {
        let units = shape.heads * T::head_len(shape);
        let page = || -> &'static mut [T] { vec![T::default(); units].leak() };
        let pointers = (0..DEPTH / PAGE_KEYS).map(|_| page().as_mut_ptr()).collect();
        let cache = Cache { shape, pointers };
        let mut rng = Rng::new(1);
        for position in 0..DEPTH {
            let k: Vec<f32> = (0..shape.heads * shape.k_dim).map(|_| rng.normal()).collect();
            let v: Vec<f32> = (0..shape.heads * shape.v_dim).map(|_| rng.normal()).collect();
            // SAFETY: as in `peak`; this thread alone uses the pages.
            unsafe { T::append(ops)(&mut AppendArgs { pages: cache.pages(), position, k: &k, v: &v }) };
        }
        cache
    }

    fn pages(&self) -> KvPages<'_, T> {
        // SAFETY: each page has the units of every head and is never freed; positions are written before they are read.
        unsafe { KvPages::from_raw(self.shape, 0, &self.pointers) }
    }
}

/// Seconds per head for some tokens at the end of the cache.
fn seconds<T: Cached>(ops: &Ops, cache: &Cache<T>, (tokens, queries): (usize, usize), runs: usize) -> f64 {
    let shape = cache.shape;
    let q: Vec<f32> =
        (0..tokens * queries * shape.k_dim).map(|i| (i * 7919 % 1013) as f32 / 500.0 - 1.0).collect();
    let mut out = vec![0.0; tokens * queries * shape.v_dim];
    let mut scratch = AttentionScratch::new();
    let mut times = vec![f64::INFINITY; shape.heads];
    for _ in 0..runs {
        // All heads in turn, so that the cache is read from memory where it is large.
        for (head, time) in times.iter_mut().enumerate() {
            let mut args = AttentionArgs {
                pages: cache.pages(),
                head,
                tokens,
                visible: Visible { end: DEPTH + 1 - tokens, window: None },
                scale: 0.1,
                soft_cap: None,
                sinks: None,
                q: &q,
                out: AttentionOut::Whole(&mut out),
                scratch: &mut scratch,
            };
            // SAFETY: as in `peak`.
            *time = time.min(best(1, || unsafe { T::attention(ops)(&mut args) }));
        }
    }
    times.iter().sum::<f64>() / shape.heads as f64
}

/// Measures tiles and tokens over caches of one type.
fn measure<T: Cached>(ops: &Ops, peak: f64) {
    for dim in [64, 128] {
        let shape = KvShape { heads: 8, k_dim: dim, v_dim: dim };
        let cache = Cache::<T>::new(ops, shape);
        for (tokens, queries) in [(64, 1), (32, 4), (16, 8), (1, 4), (1, 8), (1, 1)] {
            let time = seconds(ops, &cache, (tokens, queries), 12);
            let rate = (2 * DEPTH * tokens * queries * dim) as f64 / time / 1e9;
            let bytes = (DEPTH / PAGE_KEYS * T::TYPE.page_bytes(shape)) as f64 / 8.0 / time / 1e9;
            let (percent, label) = (100.0 * rate / peak, T::TYPE.label());
            println!(
                "{label} {dim:4} {tokens:3} x {queries}: {rate:5.1} GMAC/s {percent:3.0}%, {bytes:5.1} GB/s"
            );
        }
    }
}

pub(crate) fn run() {
    let tiers = [("avx512vnni", cera_simd_x86::AVX512VNNI), ("avx2", cera_simd_x86::AVX2)];
    for (label, kernels) in tiers {
        let kernels = kernels.expect("compiled in");
        let wide = peak(&cera_simd_x86::AVX512VNNI.expect("compiled in"));
        let peak = if label == "avx2" { wide / 2.0 } else { wide };
        println!("{label}: peak {peak:.0} GMAC/s");
        measure::<u16>(&kernels.ops, peak);
        measure::<Q8Unit>(&kernels.ops, peak);
    }
}
