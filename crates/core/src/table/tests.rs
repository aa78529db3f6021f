#![allow(clippy::unwrap_used)]

use cera_quant::ops::{Activation, AddArgs, GatedArgs, RmsNormArgs, RopeArgs, RopePairs};

use super::*;
use crate::pool::testing as mode;

/// Subnormals, and numbers whose products are.
const TINY: [f32; 8] = [1e-39, -3e-40, 1e-38, 2e-38, -1e-20, 1e-21, 1e-45, 0.75];

/// The bits of what every kind of operation makes of [`TINY`].
fn results(table: &KernelTable) -> Vec<u32> {
    let mut all = Vec::new();
    let mut acc = TINY;
    table.add(&mut AddArgs { acc: &mut acc, x: &[-5e-39; 8] });
    all.extend(acc);
    let mut gate = TINY;
    table.gated(&mut GatedArgs { activation: Activation::Silu, gate: &mut gate, up: &[0.3; 8] });
    all.extend(gate);
    let mut x = TINY;
    let (cos, sin) = ([0.6; 4], [0.8; 4]);
    table.rope(&mut RopeArgs { x: &mut x, head_dim: 8, pairs: RopePairs::Half, cos: &cos, sin: &sin });
    all.extend(x);
    let mut out = [0.0; 8];
    table.rms_norm(&mut RmsNormArgs { x: &TINY, weight: &[1e-3; 8], eps: 1e-5, out: &mut out });
    all.extend(out);
    let mut records = vec![0; ActFormat::Q8x32.bytes(1, 32).unwrap()];
    table
        .quantize(ActFormat::Q8x32, &[&TINY[..7], &TINY[..]].concat().repeat(3)[..32], 32, &mut records)
        .unwrap();
    all.iter().map(|x| x.to_bits()).chain(records.iter().map(|&byte| byte.into())).collect()
}

#[test]
fn the_mode_of_the_caller_does_not_reach_the_public_operations() {
    if !mode::SUPPORTED {
        return;
    }
    let table = KernelTable::scalar();
    let expected = results(&table);
    mode::set_flush();
    let got = results(&table);
    let holds = mode::flushes();
    mode::set_default();
    assert_eq!((got, holds), (expected, true));
}
