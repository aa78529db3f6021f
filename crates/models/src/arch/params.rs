//! The hyper-parameters that architectures share, from the metadata keys that the GGUF specification gives them.

use super::source::Source;
use crate::ModelError;
use crate::gguf::Value;

const ORIGINAL_CONTEXT: &str = "{arch}.rope.scaling.original_context_length";

/// Hyper-parameters; sizes in elements.
#[derive(Debug)]
pub(super) struct Params {
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) context_length: usize,
    /// The context of training, where it was made longer later.
    pub(super) original_context: usize,
    /// The width of the feed-forward network of each layer.
    pub(super) feed_forward: Vec<u32>,
    /// Query heads of each layer.
    pub(super) heads: Vec<u32>,
    /// KV heads of each layer; none where a layer has no attention.
    pub(super) kv_heads: Vec<u32>,
    pub(super) k_dim: usize,
    pub(super) v_dim: usize,
    /// Rotated elements of a head.
    pub(super) rope_dim: usize,
    pub(super) eps: f32,
    /// The factor of attention scores.
    pub(super) scale: f32,
    /// What attention scores are capped to.
    pub(super) score_cap: Option<f32>,
    /// What logits are capped to.
    pub(super) logit_cap: Option<f32>,
    /// How many positions a token sees in layers with a sliding window.
    pub(super) window: Option<usize>,
    /// Whether the queries of a head are followed by a gate of its result, as many elements again.
    pub(super) query_gates: bool,
}

impl Params {
    /// Reads them.
    pub(super) fn read(source: &Source<'_>) -> Result<Params, ModelError> {
        let meta = source.meta();
        let layers = source.layers()?;
        let hidden = meta.nonzero_u32("{arch}.embedding_length")? as usize;
        let heads = nonzero_per_layer(source, "{arch}.attention.head_count", layers)?;
        let kv_heads =
            meta.per_layer_opt("{arch}.attention.head_count_kv", layers)?.unwrap_or_else(|| heads.clone());
        check_groups(source, &heads, &kv_heads)?;
        let first = heads[0] as usize;
        let k_dim = match meta.u32_opt("{arch}.attention.key_length")? {
            Some(dim) => dim as usize,
            None if hidden.is_multiple_of(first) => hidden / first,
            None => {
                return Err(source.unsupported(format!(
                    "a width of {hidden} on {first} heads (embedding_length, attention.head_count)"
                )));
            }
        };
        let v_dim = meta.u32_or("{arch}.attention.value_length", k_dim as u32)? as usize;
        let rope_dim = meta.u32_or("{arch}.rope.dimension_count", k_dim as u32)? as usize;
        if k_dim == 0 || v_dim == 0 || rope_dim == 0 || !rope_dim.is_multiple_of(2) || rope_dim > k_dim {
            return Err(source.unsupported(format!(
                "heads of {k_dim} and {v_dim} with {rope_dim} rotated elements (attention.head_count, \
                 attention.key_length, attention.value_length, rope.dimension_count)"
            )));
        }
        let eps = meta.f32("{arch}.attention.layer_norm_rms_epsilon")?;
        let scale = meta.f32_or("{arch}.attention.scale", 1.0 / (k_dim as f32).sqrt())?;
        source.expect_positive("attention.layer_norm_rms_epsilon", eps)?;
        source.expect_positive("attention.scale", scale)?;
        // Zero stands for none.
        let cap = |key: &str| match meta.f32_opt(&format!("{{arch}}.{key}"))? {
            Some(0.0) => Ok(None),
            _ => source.factor(key),
        };
        let context_length = meta.nonzero_u32("{arch}.context_length")? as usize;
        let window = meta.u32_opt("{arch}.attention.sliding_window")?;
        Ok(Params {
            layers,
            hidden,
            context_length,
            original_context: match meta.has(ORIGINAL_CONTEXT)? {
                true => meta.nonzero_u32(ORIGINAL_CONTEXT)? as usize,
                false => context_length,
            },
            feed_forward: nonzero_per_layer(source, "{arch}.feed_forward_length", layers)?,
            heads,
            kv_heads,
            k_dim,
            v_dim,
            rope_dim,
            eps,
            scale,
            score_cap: cap("attn_logit_softcapping")?,
            logit_cap: cap("final_logit_softcapping")?,
            window: window.filter(|&window| window != 0).map(|window| window as usize),
            query_gates: false,
        })
    }

    /// The window of every layer, of which each `interval`-th sees all positions unless the file has another pattern: an
    /// interval, or whether each layer has a window.
    pub(super) fn windows(
        &self,
        source: &Source<'_>,
        interval: usize,
    ) -> Result<Vec<Option<usize>>, ModelError> {
        const PATTERN: &str = "{arch}.attention.sliding_window_pattern";
        let meta = source.meta();
        let windowed: Vec<bool> = match meta.value(PATTERN)? {
            Some(Value::Array(_)) => meta.per_layer(PATTERN, self.layers)?,
            _ => {
                let interval = meta.usize_or(PATTERN, interval)?;
                // Without an interval no layer sees all positions.
                (0..self.layers).map(|layer| interval == 0 || (layer + 1) % interval != 0).collect()
            }
        };
        Ok(windowed.into_iter().map(|windowed| self.window.filter(|_| windowed)).collect())
    }

    /// That every layer has attention.
    pub(super) fn expect_attention(&self, source: &Source<'_>) -> Result<(), ModelError> {
        match self.kv_heads.iter().position(|&kv| kv == 0) {
            Some(layer) => {
                Err(source.unsupported(format!("layer {layer} without KV heads (attention.head_count_kv)")))
            }
            None => Ok(()),
        }
    }

    /// The width of the queries of a layer with their gates, and that of its keys and of its values.
    pub(super) fn qkv_widths(&self, layer: usize) -> [usize; 3] {
        let (heads, kv_heads) = (self.heads[layer] as usize, self.kv_heads[layer] as usize);
        let q_dim = if self.query_gates { 2 * self.k_dim } else { self.k_dim };
        [heads * q_dim, kv_heads * self.k_dim, kv_heads * self.v_dim]
    }
}

/// One integer of at least 1 for each layer.
fn nonzero_per_layer(source: &Source<'_>, key: &str, layers: usize) -> Result<Vec<u32>, ModelError> {
    let meta = source.meta();
    let values = meta.per_layer(key, layers)?;
    match values.contains(&0) {
        true => Err(meta.wrong(key, "an integer of at least 1".to_owned(), &Value::U32(0)).into()),
        false => Ok(values),
    }
}

/// That the query heads of every layer share its KV heads evenly.
fn check_groups(source: &Source<'_>, heads: &[u32], kv_heads: &[u32]) -> Result<(), ModelError> {
    let uneven = heads.iter().zip(kv_heads).find(|&(heads, &kv)| kv != 0 && !heads.is_multiple_of(kv));
    match uneven {
        Some((heads, kv)) => {
            Err(source.unsupported(format!("{heads} query heads on {kv} KV heads (attention.head_count_kv)")))
        }
        None => Ok(()),
    }
}
