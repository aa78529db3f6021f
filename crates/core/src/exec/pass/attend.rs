//! Attention: one token with the queries of one KV head at a time.

use cera_quant::kv::{KvShape, KvType};
use cera_quant::ops::AttentionArgs;

use super::Pass;
use crate::graph::{AttentionInfo, ValueId};
use crate::state::LayerState;
use crate::table::{Kernels, KvKernels};

impl Pass<'_> {
    /// Chunks of a phase of attention of `n` tokens.
    pub(super) fn attention_chunks(&self, info: &AttentionInfo, n: usize) -> usize {
        n * self.kv_shape(info).heads
    }

    /// Runs a chunk of a phase of attention.
    pub(super) fn attention(
        &self,
        chunk: usize,
        args: (ValueId, &AttentionInfo, ValueId),
        kernels: &Kernels<'_>,
    ) {
        let heads = self.kv_shape(args.1).heads;
        let at = (chunk / heads, chunk % heads);
        match self.batch.kv_type(at.0) {
            KvType::F32 => self.attend::<f32>(at, args, kernels),
            KvType::F16 => self.attend::<u16>(at, args, kernels),
        }
    }

    fn kv_shape(&self, info: &AttentionInfo) -> KvShape {
        let LayerState::Kv(shape) = self.graph().state.layers[info.state.0];
        shape
    }

    /// Attention of one token with the queries of one KV head.
    fn attend<T: KvKernels>(
        &self,
        (token, head): (usize, usize),
        (q, info, out): (ValueId, &AttentionInfo, ValueId),
        kernels: &Kernels<'_>,
    ) {
        // SAFETY: `T` is the element type of the token's sequence; nothing writes pages in this phase.
        let (pages, shape) =
            unsafe { self.batch.pages::<T>(token, info.state, self.graph().state.layers[info.state.0]) };
        // SAFETY: queries are from an earlier phase (barriers).
        let q = unsafe { self.read(q, token..token + 1) };
        let queries = q.len() / (shape.heads * shape.k_dim);
        let (q_len, out_len) = (queries * shape.k_dim, queries * shape.v_dim);
        let first = self.memory.ptr(self.plan().values[out.0]);
        let row = shape.heads * out_len;
        // SAFETY: the results of a token and KV head are written by one chunk (chunks) and lie inside of the value, whose
        // rows are `heads * out_len` elements.
        let out = unsafe { std::slice::from_raw_parts_mut(first.add(token * row + head * out_len), out_len) };
        let end = self.batch.positions[token] + 1;
        let visible = info.window.map_or(0, |window| end.saturating_sub(window))..end;
        let q = &q[head * q_len..][..q_len];
        T::attention(kernels, &mut AttentionArgs { pages, head, visible, scale: info.scale, q, out });
    }
}
