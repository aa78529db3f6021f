//! The measurements.

use std::arch::x86_64::*;
use std::hint::black_box;

use cera_quant::Format;
use cera_quant::acts::{ActFormat, ActsRef, quantize_acts};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::pack::{PackedRef, pack_strip, strip_bytes};
use cera_simd_x86::{MatrixFn, avx512vnni};
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};

type ByFormat = fn(Format) -> Option<MatrixFn>;

/// Seconds that this thread has run: what other programs take is not in it.
fn thread_seconds() -> f64 {
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    }
    const THREAD_CPUTIME: i32 = 3;
    let mut time = [0; 2];
    // SAFETY: a `timespec` of 64-bit Linux is two words.
    let result = unsafe { clock_gettime(THREAD_CPUTIME, &mut time) };
    assert_eq!(result, 0, "no clock of the thread");
    time[0] as f64 + 1e-9 * time[1] as f64
}

/// The shortest time of some runs, in seconds.
fn best(runs: usize, mut f: impl FnMut()) -> f64 {
    let time = |f: &mut dyn FnMut()| {
        let start = thread_seconds();
        f();
        thread_seconds() - start
    };
    (0..runs).map(|_| time(&mut f)).fold(f64::INFINITY, f64::min)
}

const ROUNDS: usize = 1 << 16;

#[target_feature(enable = "avx512f,avx512vnni")]
fn dots_512() {
    let (a, b) = (black_box(_mm512_set1_epi8(3)), black_box(_mm512_set1_epi8(5)));
    let mut acc = [_mm512_setzero_si512(); 16];
    for _ in 0..ROUNDS {
        for acc in &mut acc {
            *acc = _mm512_dpbusd_epi32(*acc, a, b);
        }
    }
    black_box(acc);
}

#[target_feature(enable = "avx2")]
fn dots_256() {
    let (a, b) = (black_box(_mm256_set1_epi8(3)), black_box(_mm256_set1_epi8(5)));
    let mut acc = [_mm256_setzero_si256(); 8];
    for _ in 0..ROUNDS {
        for acc in &mut acc {
            *acc = _mm256_add_epi16(*acc, _mm256_maddubs_epi16(a, *acc));
        }
        acc[0] = _mm256_xor_si256(acc[0], b);
    }
    black_box(acc);
}

struct Tier {
    label: &'static str,
    gemm: ByFormat,
    gemv: ByFormat,
    /// GMAC/s of the dot instructions alone.
    peak: f64,
    tiles: &'static [usize],
}

fn tiers() -> Vec<Tier> {
    // SAFETY: this program is for machines with both tiers; on others it ends with an illegal instruction.
    let (wide, narrow) = unsafe { (best(100, || dots_512()), best(100, || dots_256())) };
    let gmacs = |dots: f64, macs: f64, time: f64| ROUNDS as f64 * dots * macs / time / 1e9;
    let _ = narrow;
    vec![Tier {
        label: "avx512vnni",
        gemm: avx512vnni::gemm,
        gemv: avx512vnni::gemv,
        peak: gmacs(16.0, 64.0, wide),
        tiles: &[4, 6, 8, 9, 10],
    }]
}

/// `m` rows of packed weights: one strip of random blocks over and over.
fn packed(format: Format, m: usize, k: usize) -> Vec<u8> {
    let rows = weights::rows(format, (16, k), Kind::Sane, &mut Rng::new(1));
    let mut strip = vec![0; strip_bytes(format, k).expect("size")];
    pack_strip(format, k, &rows, &mut strip).expect("shapes");
    strip.repeat(m / 16)
}

fn time(kernel: MatrixFn, format: Format, (m, n, k): (usize, usize, usize), tile: usize, runs: usize) -> f64 {
    let packed = packed(format, m, k);
    let x: Vec<f32> = (0..n * k).map(|i| ((i * 7919 % 1013) as f32 - 506.0) / 200.0).collect();
    let act = ActFormat::of(format);
    let mut acts = vec![0; act.bytes(n, k).expect("size")];
    quantize_acts(act, &x, k, tile, &mut acts).expect("shapes");
    let mut out = vec![0.0; n * m];
    let w = PackedRef::new(format, m, k, &packed).expect("shapes");
    let x = ActsRef::new(act, (n, k), tile, &acts).expect("shapes");
    // SAFETY: `out` has `n` times `m` elements, and only the kernel uses it.
    let view = unsafe { OutMat::from_raw(out.as_mut_ptr(), n, m, m) };
    let args = GemmArgs { w, x, strips: 0..w.strips(), tiles: 0..x.tiles(), out: view };
    // SAFETY: as in `tiers`.
    let seconds = best(runs, || unsafe { kernel(&args) });
    black_box(&out);
    seconds
}

pub fn run(formats: Vec<String>) {
    let all: Vec<Format> = if formats.is_empty() {
        Format::ALL.to_vec()
    } else {
        formats.iter().map(|f| Format::from_label(f).expect("a format")).collect()
    };
    for tier in tiers() {
        println!("{}: peak {:.0} GMAC/s", tier.label, tier.peak);
        for &format in &all {
            let (Some(gemm), Some(gemv)) = ((tier.gemm)(format), (tier.gemv)(format)) else { continue };
            print!("{:7}", format.label());
            let (m, n, k) = (2048, 480, 2048);
            for &tile in tier.tiles {
                let rate = (m * n * k) as f64 / time(gemm, format, (m, n, k), tile, 40) / 1e9;
                print!("  {tile:2}: {rate:4.0} {:2.0}%", 100.0 * rate / tier.peak);
            }
            let k = 4096;
            let strip = strip_bytes(format, k).expect("size");
            let m = (192 << 20) / strip * 16;
            let seconds = time(gemv, format, (m, 1, k), 1, 6);
            let cached = (1 << 20) / strip * 16;
            let hot = time(gemv, format, (cached, 1, k), 1, 60);
            println!(
                "  gemv {:5.1} GB/s, cached {:5.1}",
                (m / 16 * strip) as f64 / seconds / 1e9,
                (cached / 16 * strip) as f64 / hot / 1e9
            );
        }
    }
}

pub fn shapes(format: &str) {
    let format = Format::from_label(format).expect("f");
    let tier = &tiers()[0];
    for (m, n, k) in [(16, 80, 256), (64, 80, 512), (64, 80, 1024), (64, 80, 2048), (64,480,2048), (256, 480, 2048), (2048, 480, 2048), (64,480,8192),(256,480,8192)] {
        print!("{m} {n} {k}: ");
        for tile in [2, 4,6, 8,9, 10].iter() {
            let r = (200_000_000 / (m*n*k)).clamp(30, 2000);
            let s = time((tier.gemm)(format).unwrap(), format, (m, n, k), *tile, r);
            let rate = (m*n*k) as f64 / s / 1e9;
            print!("  {tile:2}: {rate:4.0} {:2.0}%", 100.0 * rate / tier.peak);
        }
        println!();
    }
}
