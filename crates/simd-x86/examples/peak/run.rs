//! The measurements.

#![allow(clippy::print_stdout, reason = "prints its results")]

use std::alloc::{Layout, alloc};
use std::hint::black_box;
use std::slice;

use cera_quant::Format;
use cera_quant::acts::{ActFormat, ActsRef, quantize_acts};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::kernels::{Dots, MatrixFn, QuantizeFn, TierKernels};
use cera_quant::pack::{PackedRef, pack_strip, strip_bytes};
use cera_testkit::clock::best;
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};

const ROUNDS: usize = 1 << 16;

pub(crate) struct Tier {
    pub(crate) label: &'static str,
    pub(crate) kernels: TierKernels,
    /// The dot instruction alone.
    dots: Option<Dots>,
    tiles: &'static [usize],
}

pub(crate) fn tiers() -> Vec<Tier> {
    let compiled = |kernels: Option<TierKernels>| kernels.expect("compiled in");
    let wide = compiled(cera_simd_x86::AVX512VNNI);
    let narrow = compiled(cera_simd_x86::AVX2);
    let tiles: &[usize] = &[1, 2, 4, 8, 12, 30];
    vec![
        Tier { label: "avx512vnni", kernels: wide, dots: wide.dots, tiles },
        Tier { label: "avx512bf16", kernels: compiled(cera_simd_x86::AVX512BF16), dots: wide.dots, tiles },
        Tier { label: "avx2", kernels: narrow, dots: narrow.dots, tiles: &[1, 2, 4, 8, 12] },
    ]
}

/// Memory in pages of 2 MB, as the engine packs into.
fn large_pages(len: usize) -> &'static mut [u8] {
    unsafe extern "C" {
        fn madvise(start: *mut u8, len: usize, advice: i32) -> i32;
    }
    const HUGE_PAGE: i32 = 14;
    let layout = Layout::from_size_align(len.next_multiple_of(2 << 20), 2 << 20).expect("a size");
    // SAFETY: the layout is not empty; the memory is fresh, zeroed after the advice, and never freed.
    unsafe {
        let start = alloc(layout);
        assert!(!start.is_null(), "out of memory");
        madvise(start, layout.size(), HUGE_PAGE);
        start.write_bytes(0, layout.size());
        slice::from_raw_parts_mut(start, len)
    }
}

/// A matrix product on its own: strip after strip of the same random blocks.
pub(crate) struct Product {
    format: Format,
    shape: (usize, usize, usize),
    weights: &'static [u8],
    x: Vec<f32>,
}

impl Product {
    pub(crate) fn new(format: Format, (m, n, k): (usize, usize, usize)) -> Product {
        let strip = strip_bytes(format, k).expect("size");
        let weights = large_pages(m / 16 * strip);
        let rows = weights::rows(format, (16, k), Kind::Sane, &mut Rng::new(1));
        for out in weights.chunks_exact_mut(strip) {
            pack_strip(format, k, &rows, out).expect("shapes");
        }
        let x = (0..n * k).map(|i| ((i * 7919 % 1013) as f32 - 506.0) / 200.0).collect();
        Product { format, shape: (m, n, k), weights, x }
    }

    /// Seconds that a kernel takes for `parts` parts of the rows in column tiles of `tile`, each part at its best, and
    /// GMAC/s of the dot products alone at the same time: the clock of the machine is not steady.
    pub(crate) fn time(
        &self,
        kernel: MatrixFn,
        tile: usize,
        (runs, parts): (usize, usize),
        peak: Option<Dots>,
    ) -> (f64, f64) {
        let (m, n, k) = self.shape;
        let act = ActFormat::of(self.format);
        let mut acts = vec![0; act.bytes(n, k).expect("size")];
        quantize_acts(act, &self.x, k, tile, &mut acts).expect("shapes");
        let w = PackedRef::new(self.format, m, k, self.weights).expect("shapes");
        let x = ActsRef::new(act, (n, k), tile, &acts).expect("shapes");
        let mut out = vec![0.0; n * m];
        // SAFETY: `out` has `n` times `m` elements, and only the kernel uses it.
        let out = unsafe { OutMat::from_raw(out.as_mut_ptr(), n, m, m) };
        let mut times = vec![f64::INFINITY; parts];
        let mut dots = f64::INFINITY;
        for _ in 0..runs {
            // All parts in turn, so that weights that do not fit the cache come from memory.
            for (i, time) in times.iter_mut().enumerate() {
                let strips = i * w.strips() / parts..(i + 1) * w.strips() / parts;
                let args = GemmArgs { w, x, strips, tiles: 0..x.tiles(), out };
                // SAFETY: as in `tiers`.
                *time = time.min(best(1, || unsafe { kernel(&args) }));
            }
            if let Some(peak) = peak {
                // SAFETY: as in `tiers`.
                dots = dots.min(best(4, || unsafe { (peak.run)(ROUNDS / 8) }));
            }
        }
        let peak = peak.map_or(0.0, |peak| (ROUNDS / 8 * peak.macs) as f64 / dots / 1e9);
        (times.iter().sum(), peak)
    }
}

/// Nanoseconds that a quantizer takes per element, of a column tile of the tier's width.
fn quantize_time(quantize: QuantizeFn, n: usize, act: ActFormat) -> f64 {
    let k = 2048;
    let x: Vec<f32> = (0..n * k).map(|i| ((i * 7919 % 1013) as f32 - 506.0) / 200.0).collect();
    let mut out = vec![0; act.bytes(n, k).expect("size")];
    // SAFETY: as in `tiers`.
    let seconds = best(400, || unsafe { quantize(&x, k, &mut out) });
    black_box(&out);
    1e9 * seconds / (n * k) as f64
}

/// GB/s of weights of a kernel for one token, of weights in memory or in the cache.
fn read_rate(format: Format, kernel: MatrixFn, bytes: usize) -> f64 {
    let k = 4096;
    let strip = strip_bytes(format, k).expect("size");
    let strips = bytes / strip;
    let product = Product::new(format, (16 * strips, 1, k));
    let (runs, parts) = if bytes > 8 << 20 { (4, 16) } else { (60, 1) };
    (strips * strip) as f64 / product.time(kernel, 1, (runs, parts), None).0 / 1e9
}

pub(crate) fn run(names: &[String]) {
    let formats: Vec<Format> = names.iter().filter_map(|name| Format::from_label(name)).collect();
    let all = if formats.is_empty() { Format::ALL.to_vec() } else { formats };
    let wanted: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| Format::from_label(name).is_none()).collect();
    for tier in tiers() {
        if !wanted.is_empty() && !wanted.contains(&tier.label) {
            continue;
        }
        println!("{}", tier.label);
        for act in ActFormat::ALL {
            if let Some(quantize) = (tier.kernels.quantize)(act) {
                let time = quantize_time(quantize, tier.kernels.tile, act);
                println!("quantize {:6}  {time:.3} ns/element", act.label());
            }
        }
        for &format in &all {
            let (Some(gemm), Some(gemv)) = ((tier.kernels.gemm)(format), (tier.kernels.gemv)(format)) else {
                continue;
            };
            print!("{:7}", format.label());
            let (m, n, k) = (2048, 512, 2048);
            let product = Product::new(format, (m, n, k));
            for &tile in tier.tiles {
                let (time, peak) = product.time(gemm, tile, (20, 2), tier.dots);
                let rate = (m * n * k) as f64 / time / 1e9;
                print!("  {tile:2}: {rate:4.0} {:2.0}%", 100.0 * rate / peak);
            }
            let (memory, cache) = (read_rate(format, gemv, 192 << 20), read_rate(format, gemv, 512 << 10));
            println!("  gemv {memory:5.1} GB/s, cached {cache:5.1}");
        }
    }
}
