//! Llama and what shares its graph: Llama 2 and 3, SmolLM2, Mistral.
//!
//! Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; Grattafiori et al., "The Llama 3
//! Herd of Models", 2024; tensor and key names of the GGUF specification.

use cera_core::graph::{AttentionInfo, Graph, GraphBuilder, RopeId, RopeInfo, ValueId};
use cera_quant::kv::KvShape;
use cera_quant::ops::{Activation, RopePairs};

use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// Hyper-parameters; sizes in elements.
struct Params {
    layers: usize,
    hidden: usize,
    feed_forward: Vec<u32>,
    heads: usize,
    kv_heads: Vec<u32>,
    k_dim: usize,
    v_dim: usize,
    rope_dim: usize,
    eps: f32,
    scale: f32,
}

impl Params {
    fn read(source: &Source<'_>) -> Result<Params, ModelError> {
        let meta = source.meta();
        let layers = source.layers()?;
        let hidden = meta.nonzero_u32("{arch}.embedding_length")? as usize;
        let heads = meta.nonzero_u32("{arch}.attention.head_count")? as usize;
        let same = vec![heads as u32; layers];
        let kv_heads = meta.per_layer_opt("{arch}.attention.head_count_kv", layers)?.unwrap_or(same);
        if let Some(&kv) = kv_heads.iter().find(|&&kv| kv == 0 || !heads.is_multiple_of(kv as usize)) {
            return Err(
                source.unsupported(format!("{heads} query heads on {kv} KV heads (attention.head_count_kv)"))
            );
        }
        let k_dim = match meta.u32_opt("{arch}.attention.key_length")? {
            Some(dim) => dim as usize,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(
                    source.unsupported(format!("a width of {hidden} on {heads} heads (embedding_length)"))
                );
            }
        };
        let v_dim = meta.u32_or("{arch}.attention.value_length", k_dim as u32)? as usize;
        let rope_dim = meta.u32_or("{arch}.rope.dimension_count", k_dim as u32)? as usize;
        if k_dim == 0 || v_dim == 0 || !rope_dim.is_multiple_of(2) || rope_dim > k_dim {
            return Err(
                source.unsupported(format!("heads of {k_dim} and {v_dim} with {rope_dim} rotated elements"))
            );
        }
        if meta.u32_or("{arch}.expert_count", 0)? > 0 {
            return Err(source.unsupported("a mixture of experts (expert_count)"));
        }
        let eps = meta.f32("{arch}.attention.layer_norm_rms_epsilon")?;
        let scale = meta.f32_or("{arch}.attention.scale", 1.0 / (k_dim as f32).sqrt())?;
        source.expect_positive("attention.layer_norm_rms_epsilon", eps)?;
        source.expect_positive("attention.scale", scale)?;
        Ok(Params {
            layers,
            hidden,
            feed_forward: meta.per_layer("{arch}.feed_forward_length", layers)?,
            heads,
            kv_heads,
            k_dim,
            v_dim,
            rope_dim,
            eps,
            scale,
        })
    }
}

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let params = Params::read(source)?;
    let context_length = source.meta().u32("{arch}.context_length")? as usize;
    Ok(Blueprint {
        graph: Llama { source, params: &params, g: GraphBuilder::new() }.graph()?,
        context_length,
    })
}

struct Llama<'a, 'f> {
    source: &'a Source<'f>,
    params: &'a Params,
    g: GraphBuilder,
}

impl Llama<'_, '_> {
    fn graph(mut self) -> Result<Graph, ModelError> {
        let p = self.params;
        let vocabulary = self.source.rows("token_embd.weight")?;
        let embedding = self.source.matrix(&mut self.g, "token_embd.weight", (vocabulary, p.hidden))?;
        // The rotary embedding has as many frequencies as a head has pairs, and only a tensor bounds a head.
        self.source.check_matrix("blk.0.attn_q.weight", (p.heads * p.k_dim, p.hidden))?;
        let rope = self.g.rope_frequencies(RopeInfo {
            inv_freq: rope::frequencies(self.source, p.rope_dim)?,
            pairs: RopePairs::Interleaved,
            head_dim: p.k_dim,
        })?;
        let mut x = self.g.embed("hidden.0", embedding);
        for layer in 0..p.layers {
            x = self.layer(layer, x, rope)?;
        }
        self.g.scope("");
        let x = self.g.select_outputs("output_rows", x)?;
        let norm = self.source.vector(&mut self.g, "output_norm.weight", p.hidden)?;
        let x = self.g.rms_norm("output_norm", x, norm, p.eps)?;
        let head = match self.source.has("output.weight") {
            true => self.source.matrix(&mut self.g, "output.weight", (vocabulary, p.hidden))?,
            false => embedding,
        };
        let logits = self.g.linear("logits", x, head, None)?;
        Ok(self.g.finish(logits)?)
    }

    fn layer(&mut self, layer: usize, x: ValueId, rope: RopeId) -> Result<ValueId, ModelError> {
        let p = self.params;
        let kv_heads = p.kv_heads[layer] as usize;
        self.g.scope(&format!("blk.{layer}"));
        let h = self.norm("attn_norm", layer, x)?;
        let q = self.linear("attn_q", layer, h, (p.heads * p.k_dim, p.hidden))?;
        let k = self.linear("attn_k", layer, h, (kv_heads * p.k_dim, p.hidden))?;
        let v = self.linear("attn_v", layer, h, (kv_heads * p.v_dim, p.hidden))?;
        let q = self.g.rope("q_rope", q, rope)?;
        let k = self.g.rope("k_rope", k, rope)?;
        let state = self.g.kv_state(KvShape { heads: kv_heads, k_dim: p.k_dim, v_dim: p.v_dim });
        let info = AttentionInfo { state, scale: p.scale, window: None };
        let context = self.g.attention("attention", (q, k, v), info)?;
        let y = self.linear("attn_output", layer, context, (p.hidden, p.heads * p.v_dim))?;
        let x = self.g.add("attn_residual", x, y)?;

        let feed_forward = p.feed_forward[layer] as usize;
        let h = self.norm("ffn_norm", layer, x)?;
        let gate = self.linear("ffn_gate", layer, h, (feed_forward, p.hidden))?;
        let up = self.linear("ffn_up", layer, h, (feed_forward, p.hidden))?;
        let act = self.g.gated("ffn_act", (gate, up), Activation::Silu)?;
        let y = self.linear("ffn_down", layer, act, (p.hidden, feed_forward))?;
        self.g.scope("");
        Ok(self.g.add(&format!("hidden.{}", layer + 1), x, y)?)
    }

    fn norm(&mut self, name: &str, layer: usize, x: ValueId) -> Result<ValueId, ModelError> {
        let weight =
            self.source.vector(&mut self.g, &format!("blk.{layer}.{name}.weight"), self.params.hidden)?;
        Ok(self.g.rms_norm(name, x, weight, self.params.eps)?)
    }

    fn linear(
        &mut self,
        name: &str,
        layer: usize,
        x: ValueId,
        (m, k): (usize, usize),
    ) -> Result<ValueId, ModelError> {
        let weight = self.source.matrix(&mut self.g, &format!("blk.{layer}.{name}.weight"), (m, k))?;
        let bias = self.source.vector_opt(&mut self.g, &format!("blk.{layer}.{name}.bias"), m)?;
        Ok(self.g.linear(name, x, weight, bias)?)
    }
}
