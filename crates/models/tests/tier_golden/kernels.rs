//! Which kernels a cell must have run.

use std::collections::{BTreeMap, BTreeSet};

use cera_core::graph::{Node, Op};
use cera_core::{F32Op, KernelId, KernelOp, KernelTable, Runtime};
use cera_models::Model;
use cera_quant::acts::ActFormat;
use cera_quant::kv::KvType;

/// The number of tokens in the passes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    /// One token each.
    One,
    /// Several tokens each.
    Several,
    /// Several tokens, in some passes perhaps one, and perhaps caches of both types.
    AtLeastSeveral,
}

/// Calls of each kernel by name.
pub(crate) type Calls = BTreeMap<String, u64>;

/// The calls on `runtime` so far.
pub(crate) fn calls(runtime: &Runtime) -> Calls {
    runtime.hits().into_iter().map(|hits| (hits.kernel.to_string(), hits.total())).collect()
}

/// The tiers that have every kernel: they borrow none.
const COMPLETE: [&str; 4] = ["scalar", "avx2", "avx512vnni", "neon"];

/// What is wrong with the kernels that ran on `runtime` since `before`, if a cell with these passes ran over caches of
/// this type.
pub(crate) fn fault(
    model: &Model,
    runtime: &Runtime,
    before: &Calls,
    (passes, kv): (Passes, KvType),
) -> Option<String> {
    let now = calls(runtime);
    let grown = now.into_iter().filter(|(name, calls)| before.get(name).copied().unwrap_or(0) < *calls);
    let ran: BTreeSet<String> = grown.map(|(name, _)| name).collect();
    let table = runtime.table();
    let (required, allowed) = expected(model, table, passes, kv);
    let missing: Vec<&String> = required.difference(&ran).collect();
    let extra: Vec<&String> = ran.difference(&allowed).collect();
    let tier = table.tier().label();
    let borrows = |name: &&String| !name.starts_with(&format!("{tier}-"));
    let borrowed: Vec<&String> = ran.iter().filter(borrows).collect();
    let borrowed = if COMPLETE.contains(&tier) { borrowed } else { Vec::new() };
    (!missing.is_empty() || !extra.is_empty() || !borrowed.is_empty())
        .then(|| format!("did not run {missing:?}, ran {extra:?}, borrowed {borrowed:?}"))
}

/// The f32 operation that a node without weights and state always runs.
fn kernel(node: &Node) -> Option<F32Op> {
    match node.op {
        Op::RmsNorm { .. } => Some(F32Op::RmsNorm),
        Op::LayerNorm { .. } => Some(F32Op::LayerNorm),
        Op::Add { .. } | Op::Linear { bias: Some(_), .. } | Op::ExpertLinear { bias: Some(_), .. } => {
            Some(F32Op::Add)
        }
        Op::AddScaled { .. } | Op::Combine { .. } => Some(F32Op::AddScaled),
        Op::Route { .. } => Some(F32Op::Route),
        Op::Gated { .. } => Some(F32Op::Gated),
        Op::Pointwise { .. } => Some(F32Op::Pointwise),
        Op::Conv { .. } => Some(F32Op::Conv),
        Op::DeltaRule { .. } => Some(F32Op::DeltaRule),
        Op::StateSpace { .. } => Some(F32Op::StateSpace),
        Op::Rope { .. } => Some(F32Op::Rope),
        _ => None,
    }
}

/// The kernels that must run and those that may.
fn expected(
    model: &Model,
    table: &KernelTable,
    passes: Passes,
    kv: KvType,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let matrices: Vec<(KernelId, KernelId)> =
        Model::kernels(model.file(), table).unwrap().into_iter().filter_map(|tensor| tensor.matmul).collect();
    let several = matrices.iter().map(|(gemm, _)| *gemm);
    let one = matrices.iter().map(|(_, gemv)| *gemv);
    let acts: Vec<ActFormat> = matrices
        .iter()
        .map(|(gemm, _)| match gemm.op {
            KernelOp::Gemm(format) => ActFormat::of(format),
            other => panic!("{other:?} is no kernel for several tokens"),
        })
        .collect();
    let caches = |kv: KvType| match kv {
        KvType::F32 => [F32Op::AttentionF32, F32Op::AppendF32],
        KvType::F16 => [F32Op::AttentionF16, F32Op::AppendF16],
        KvType::Q8_0 => [F32Op::AttentionQ8_0, F32Op::AppendQ8_0],
    };
    let nodes = model.program().graph().nodes();
    let always: Vec<F32Op> = nodes.iter().filter_map(kernel).collect();
    let others = |kv: &[KvType]| -> BTreeSet<String> {
        let f32s: Vec<F32Op> = always.iter().copied().chain(kv.iter().flat_map(|kv| caches(*kv))).collect();
        let wanted = |id: &KernelId| match id.op {
            KernelOp::Quantize(format) => acts.contains(&format),
            KernelOp::F32(op) => f32s.contains(&op),
            KernelOp::Gemm(_) | KernelOp::Gemv(_) => false,
        };
        table.kernels().filter(wanted).map(|id| id.to_string()).collect()
    };
    let named = |ids: &mut dyn Iterator<Item = KernelId>| -> BTreeSet<String> {
        ids.map(|id| id.to_string()).collect()
    };
    let mut required = others(&[kv]);
    match passes {
        Passes::One => required.extend(named(&mut one.clone())),
        Passes::Several | Passes::AtLeastSeveral => required.extend(named(&mut several.clone())),
    }
    let mut allowed = required.clone();
    if nodes.iter().any(|node| matches!(node.op, Op::ExpertLinear { .. })) {
        // Of several tokens only one may have chosen an expert.
        allowed.extend(named(&mut one.clone()));
    }
    // Only passes of few tokens over long caches have parts to join.
    let merges = |id: &KernelId| id.op == KernelOp::F32(F32Op::MergeAttention);
    allowed.extend(named(&mut table.kernels().filter(merges)));
    if passes == Passes::AtLeastSeveral {
        allowed.extend(others(&[KvType::F32, KvType::F16]));
        allowed.extend(named(&mut several.chain(one)));
    }
    (required, allowed)
}
