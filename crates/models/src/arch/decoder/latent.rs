//! Multi-head latent attention.

use cera_core::graph::{AttentionInfo, Columns, RopeId, ValueId};
use cera_quant::kv::KvShape;

use super::Decoder;
use crate::ModelError;
use crate::arch::params::Params;
use crate::arch::source::Source;

/// The sizes of latent attention, in elements.
#[derive(Debug, Clone, Copy)]
pub(in crate::arch) struct Latent {
    /// The width that queries are compressed to, if they are.
    q_rank: Option<usize>,
    /// The width that keys and values are compressed to.
    kv_rank: usize,
    /// What is not rotated of a head of a query.
    plain: usize,
    /// What is rotated of it.
    rotated: usize,
    /// A head of the result.
    v_dim: usize,
}

impl Latent {
    /// Reads them.
    pub(in crate::arch) fn read(source: &Source<'_>, params: &Params) -> Result<Latent, ModelError> {
        let meta = source.meta();
        let q_rank = meta.u32_opt("{arch}.attention.q_lora_rank")?.filter(|&rank| rank != 0);
        let latent = Latent {
            q_rank: q_rank.map(|rank| rank as usize),
            kv_rank: meta.nonzero_u32("{arch}.attention.kv_lora_rank")? as usize,
            plain: (meta.nonzero_u32("{arch}.attention.key_length_mla")? as usize)
                .saturating_sub(params.rope_dim),
            rotated: params.rope_dim,
            v_dim: meta.nonzero_u32("{arch}.attention.value_length_mla")? as usize,
        };
        if latent.plain == 0 {
            return Err(source.unsupported(format!(
                "heads that are rotated as a whole: {} elements (attention.key_length_mla, rope.dimension_count)",
                latent.rotated
            )));
        }
        // The sizes that come from metadata alone are those of a tensor.
        let joined = latent.kv_rank.saturating_add(latent.rotated);
        source.check_matrix("blk.0.attn_kv_a_mqa.weight", (joined, params.hidden))?;
        Ok(latent)
    }

    /// Elements of a head of a query.
    pub(in crate::arch) fn head_dim(&self) -> usize {
        self.plain + self.rotated
    }
}

impl Decoder<'_, '_> {
    /// Latent attention, from the projections of `x` to that of the result, in its absorbed form: queries are brought to the
    /// compressed keys, whose cache serves all heads, and the result is brought back from the compressed values.
    ///
    /// Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.
    pub(in crate::arch) fn latent_attention(
        &mut self,
        x: ValueId,
        latent: &Latent,
        (rope, scale): (RopeId, f32),
    ) -> Result<ValueId, ModelError> {
        let (hidden, heads) = (self.params.hidden, self.params.heads[self.layer] as usize);
        let &Latent { q_rank, kv_rank, plain, rotated, v_dim } = latent;
        let q_width = heads * latent.head_dim();
        let (q, kv) = match q_rank {
            Some(rank) => {
                let q = self.linear("attn_q_a", x, (rank, hidden))?;
                let kv = self.linear("attn_kv_a_mqa", x, (kv_rank + rotated, hidden))?;
                let q = self.norm_of("q_a_norm", "attn_q_a_norm", q, rank)?;
                (self.linear("attn_q_b", q, (q_width, rank))?, kv)
            }
            None => {
                let q = self.linear("attn_q", x, (q_width, hidden))?;
                (q, self.linear("attn_kv_a_mqa", x, (kv_rank + rotated, hidden))?)
            }
        };
        let of_heads = |first, len| Columns { first, len, stride: latent.head_dim(), count: heads };
        let one = |first, len| Columns { first, len, stride: len, count: 1 };
        let q_plain = self.g.columns("q_plain", q, of_heads(0, plain))?;
        let q_rotated = self.g.columns("q_rotated", q, of_heads(plain, rotated))?;
        let q_rotated = self.g.rope("q_rope", q_rotated, rope)?;
        let q_plain = self.head_linear("attn_k_b", q_plain, (heads, kv_rank, plain))?;
        let q = self.g.join_heads("q", (q_plain, q_rotated), heads)?;
        let v = self.g.columns("kv_compressed", kv, one(0, kv_rank))?;
        let v = self.norm_of("kv_a_norm", "attn_kv_a_norm", v, kv_rank)?;
        let k_rotated = self.g.columns("k_rotated", kv, one(kv_rank, rotated))?;
        let k_rotated = self.g.rope("k_rope", k_rotated, rope)?;
        let k = self.g.join_heads("k", (v, k_rotated), 1)?;
        let shape = KvShape { heads: 1, k_dim: kv_rank + rotated, v_dim: kv_rank };
        let state = self.g.kv_state(shape, None);
        let info = AttentionInfo { state, scale, soft_cap: None, sinks: None };
        let context = self.g.attention("attention", (q, k, v), info)?;
        let context = self.head_linear("attn_v_b", context, (heads, v_dim, kv_rank))?;
        self.linear("attn_output", context, (hidden, heads * v_dim))
    }

    /// Every head of `x` times its matrix of the stack `name`: `heads` matrices of `m` rows of `k` elements.
    fn head_linear(
        &mut self,
        name: &str,
        x: ValueId,
        (heads, m, k): (usize, usize, usize),
    ) -> Result<ValueId, ModelError> {
        let weight = self.tensor(name, "weight");
        let weight = self.source.matrix_stack(&mut self.g, &weight, (heads, m, k))?;
        Ok(self.g.head_linear(name, x, weight)?)
    }
}
