//! The instruction for pairs of bf16 against the rule that every tier follows.

use std::arch::x86_64::__m512;

use cera_quant::num::{LANES, bf16_to_f32, flush_bf16, fma};
use cera_simd::matrix::vectors::Vectors;
use cera_testkit::cpu::has_all;
use cera_testkit::rng::Rng;

use crate::avx512bf16::{Bf16, KERNELS};
use crate::avx512vnni::lanes::Lanes;
use crate::tiers;

/// A pair of bf16, the even element first.
type Pair = [u16; 2];

/// The instruction, if this machine has it and the tier is under test.
fn instruction() -> Option<Lanes<Bf16>> {
    let asked = std::env::var("CERA_CPU_TIER").ok();
    let wanted = asked.is_none_or(|asked| asked == "avx512bf16");
    // SAFETY: the machine has all features.
    (wanted && has_all(tiers::AVX512BF16)).then(|| unsafe { Lanes::<Bf16>::new() })
}

fn vector(pairs: [Pair; LANES]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (bytes, half) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(pairs.as_flattened()) {
        *bytes = half.to_le_bytes();
    }
    bytes
}

fn run(t: Lanes<Bf16>, acc: __m512, w: [Pair; LANES], x: [Pair; LANES]) -> (__m512, [f32; LANES]) {
    let acc = t.add_pairs(acc, t.load(&vector(w), 0), t.load(&vector(x), 0));
    let mut out = [0.0; LANES];
    t.store(acc, &mut out);
    (acc, out)
}

/// The rule, in scalar operations.
fn expected(acc: f32, w: Pair, x: Pair) -> f32 {
    let odd = fma(bf16_to_f32(w[1]), bf16_to_f32(x[1]), acc);
    fma(bf16_to_f32(w[0]), bf16_to_f32(x[0]), odd)
}

/// Chains from zero over finite bf16 of all magnitudes below 2^41, flushed, half of them near 1.
#[test]
fn pairs_have_the_bits_of_two_ordered_fused_operations() {
    let Some(t) = instruction() else { return };
    let mut rng = Rng::new(5);
    let mut pairs = || {
        std::array::from_fn::<Pair, LANES, _>(|_| {
            std::array::from_fn(|_| {
                let exponent = if rng.below(2) == 0 { rng.below(168) } else { 120 + rng.below(12) };
                flush_bf16((rng.bits() as u16 & 0x807f) | (exponent << 7) as u16)
            })
        })
    };
    for chain in 0..4096 {
        let (mut acc, mut expect) = (t.zero(), [0.0_f32; LANES]);
        for link in 0..16 {
            let (w, x) = (pairs(), pairs());
            let (next, got) = run(t, acc, w, x);
            acc = next;
            for lane in 0..LANES {
                let before = expect[lane];
                expect[lane] = expected(before, w[lane], x[lane]);
                assert_eq!(
                    got[lane].to_bits(),
                    expect[lane].to_bits(),
                    "chain {chain}, link {link}: {before:e} and {:x?} times {:x?}",
                    w[lane],
                    x[lane]
                );
            }
        }
    }
}

/// What the flush is for: the instruction takes subnormal numbers for zeros of their sign, and gives such zeros.
#[test]
fn subnormal_numbers_are_zeros_to_the_instruction() {
    let Some(t) = instruction() else { return };
    let (one, least, subnormal) = (0x3f80, 0x0080, 0x0001);
    let tiny = f32::from_bits(1);
    let result = |acc: f32, w: Pair, x: Pair| run(t, t.splat(acc), [w; LANES], [x; LANES]).1[3].to_bits();
    // An operand, the accumulator, a product, and a sum that cancels to less than any normal number.
    assert_eq!(result(0.0, [subnormal, 0], [one, 0]), 0);
    assert_eq!(result(tiny, [0, 0], [0, 0]), 0);
    assert_eq!(result(0.0, [least, 0], [0x3f00, 0]), 0);
    assert_eq!(result(-1.5 * f32::MIN_POSITIVE, [least, 0], [one, 0]), (-0.0_f32).to_bits());
    // The rule keeps them, and so flushed factors must not lead to any: the least product of two is normal.
    assert_eq!(expected(0.0, [least, 0], [0x3f00, 0]).to_bits(), f32::MIN_POSITIVE.to_bits() / 2);
    let kept = 72 << 7;
    assert_eq!((flush_bf16(kept), flush_bf16(kept - 1)), (kept, 0));
    assert_eq!(result(0.0, [kept, 0], [kept, 0]), expected(0.0, [kept, 0], [kept, 0]).to_bits());
}

#[test]
fn the_self_test_passes_here() {
    if instruction().is_some() {
        let test = KERNELS.self_test.expect("the tier has a test");
        // SAFETY: the machine has all features.
        assert!(unsafe { test() });
    }
}
