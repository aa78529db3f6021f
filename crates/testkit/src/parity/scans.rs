//! The recurrences of the tiers against the scalar ones.

use cera_quant::args::OutMat;
use cera_quant::ops::{
    DeltaRule, DeltaRuleArgs, DeltaShape, HeadOrder, HeadScan, QkNorm, ScanPiece, StateSpace, StateSpaceArgs,
};
use cera_quant::scalar;

use super::Tier;
use super::ops::check;
use crate::rng::Rng;

/// The test of that name.
pub fn delta_rules_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(6), Vec::new());
    let norms = [QkNorm::L2 { eps: 1e-6 }, QkNorm::Rms { eps: 1e-5 }, QkNorm::None];
    let shapes =
        [(1, 1, 1, 1), (1, 2, 4, 16), (2, 4, 7, 33), (1, 3, 30, 48), (2, 2, 128, 64), (1, 1, 64, 100)];
    for (k_heads, v_heads, k_dim, v_dim) in shapes {
        for (n, order) in
            [(1, HeadOrder::Grouped), (2, HeadOrder::Tiled), (33, HeadOrder::Grouped), (70, HeadOrder::Tiled)]
        {
            let shape = DeltaShape { k_heads, v_heads, k_dim, v_dim, order };
            let rule = DeltaRule { shape, norm: norms[rng.below(3)], q_scale: 0.3, k_scale: 0.2 };
            let mut normal = |len: usize| (0..len).map(|_| rng.normal()).collect::<Vec<f32>>();
            let (rows, state) = (normal(n * shape.row_len()), normal(shape.tiles() * shape.tile_len()));
            let (a, b) = (normal(n * v_heads), normal(n * v_heads));
            let (a_scale, a_bias) = (normal(v_heads), normal(v_heads));
            let a_scale: Vec<f32> = a_scale.into_iter().map(|x| -x.abs()).collect();
            let head = v_heads - 1;
            let apply = |run: &dyn Fn(&mut DeltaRuleArgs<'_>)| {
                let (mut out, mut after) = (vec![f32::NAN; n * v_dim], vec![f32::NAN; state.len()]);
                run(&mut DeltaRuleArgs {
                    rule,
                    rows: &rows,
                    a: &a,
                    b: &b,
                    a_scale: &a_scale,
                    a_bias: &a_bias,
                    scratch: &mut Vec::new(),
                    piece: ScanPiece {
                        head,
                        tiles: 0..shape.tiles(),
                        before: &state,
                        after: &mut after,
                        // SAFETY: `out` has `n` rows of `v_dim` elements, and the test is one thread.
                        out: unsafe { OutMat::from_raw(out.as_mut_ptr(), n, v_dim, v_dim) },
                    },
                });
                out.extend(after);
                out
            };
            let expected = apply(&scalar::ops::delta_rule);
            check(tiers, &mut failures, &format!("{n} tokens, {rule:?}"), &expected, |tier| {
                // SAFETY: the tier is available.
                apply(&|args| unsafe { (tier.kernels.ops.delta_rule)(args) })
            });
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn state_space_scans_have_the_scalar_bits(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(7), Vec::new());
    for (heads, groups, head_dim, state_dim) in
        [(1, 1, 1, 1), (2, 1, 16, 4), (4, 2, 33, 7), (3, 3, 48, 30), (2, 1, 64, 128), (1, 1, 100, 16)]
    {
        for n in [1, 2, 33, 70] {
            let shape = StateSpace { heads, groups, head_dim, state_dim };
            let mut normal = |len: usize| (0..len).map(|_| rng.normal()).collect::<Vec<f32>>();
            let (rows, state) = (normal(n * shape.row_len()), normal(shape.tiles() * shape.tile_len()));
            let (dt, dt_bias, skip) = (normal(n * heads), normal(heads), normal(heads));
            let a: Vec<f32> = normal(heads).into_iter().map(|x| -x.abs()).collect();
            let scan = |run: &dyn Fn(&mut StateSpaceArgs<'_>)| {
                let (mut out, mut after) = (vec![f32::NAN; n * head_dim], vec![f32::NAN; state.len()]);
                run(&mut StateSpaceArgs {
                    shape,
                    rows: &rows,
                    dt: &dt,
                    dt_bias: &dt_bias,
                    a: &a,
                    skip: &skip,
                    piece: ScanPiece {
                        head: heads - 1,
                        tiles: 0..shape.tiles(),
                        before: &state,
                        after: &mut after,
                        // SAFETY: `out` has `n` rows of `head_dim` elements, and the test is one thread.
                        out: unsafe { OutMat::from_raw(out.as_mut_ptr(), n, head_dim, head_dim) },
                    },
                });
                out.extend(after);
                out
            };
            let expected = scan(&scalar::ops::state_space);
            check(tiers, &mut failures, &format!("{n} tokens, {shape:?}"), &expected, |tier| {
                // SAFETY: the tier is available.
                scan(&|args| unsafe { (tier.kernels.ops.state_space)(args) })
            });
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
