//! Qwen3-Next and Qwen3.5: most layers have linear attention by the gated delta rule; in the others the results of heads have
//! gates. The feed-forward networks are dense or experts.
//!
//! Source: Qwen Team, "Qwen3-Next", 2025; Yang et al., "Gated Delta Networks", 2024.

use cera_quant::ops::{Activation, HeadOrder, RopePairs, Scores};

use super::decoder::{Attention, Decoder, DeltaNet, Experts, QkNorm, RoutingDefaults};
use super::params::Params;
use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// Builds the graph of Qwen3-Next.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    build_with(source, HeadOrder::Grouped)
}

/// Builds the graph of Qwen3.5, whose files have the heads of values in another order.
pub(super) fn build_35(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    build_with(source, HeadOrder::Tiled)
}

fn build_with(source: &Source<'_>, order: HeadOrder) -> Result<Blueprint, ModelError> {
    let mut params = Params::read(source)?;
    params.query_gates = true;
    let recurrent = recurrent_layers(source, &mut params)?;
    let net = DeltaNet::read(source, order)?;
    let routing = RoutingDefaults { scores: Scores::Softmax, normalised: true, eps: 0.0 };
    let experts = Experts::read(source, routing)?.map(Experts::with_shared_gate);
    let mut d = Decoder::new(source, &params);
    let mut x = d.embed(1.0)?;
    expect_sections(source)?;
    let rope = d.rope(rope::embedding(source, &params, RopePairs::Half)?)?;
    let attention =
        Attention { rope: Some(rope), window: params.window, qk_norm: QkNorm::Heads, sinks: false };
    for (layer, recurrent) in recurrent.into_iter().enumerate() {
        d.begin(layer);
        let h = d.norm("attn_norm", x)?;
        let y = if recurrent { d.delta_net(h, &net)? } else { d.attention(h, &attention)? };
        let after = d.add("attn_residual", x, y)?;
        let h = d.norm("post_attention_norm", after)?;
        let y = d.feed_forward_of(h, experts.as_ref(), Activation::Silu)?;
        x = d.end(after, y)?;
    }
    d.finish(x, "output_norm", 1.0)
}

/// Which layers have linear attention. Those that predict further tokens, at the end, are left out; the others without
/// softmax attention lose their KV heads.
fn recurrent_layers(source: &Source<'_>, params: &mut Params) -> Result<Vec<bool>, ModelError> {
    let meta = source.meta();
    let further = meta.u32_or("{arch}.nextn_predict_layers", 0)? as usize;
    let (all, layers) = (params.layers, params.layers.saturating_sub(further));
    if layers == 0 {
        return Err(source
            .unsupported(format!("{further} of {all} layers for further tokens (nextn_predict_layers)")));
    }
    const INTERVAL: &str = "{arch}.full_attention_interval";
    let interval = if meta.has(INTERVAL)? { meta.nonzero_u32(INTERVAL)? as usize } else { 4 };
    let mut recurrent = meta
        .per_layer_opt("{arch}.attention.recurrent_layers", all)?
        .unwrap_or_else(|| (0..all).map(|layer| (layer + 1) % interval != 0).collect());
    if layers < all {
        source.leave_out_from(layers);
    }
    recurrent.truncate(layers);
    params.layers = layers;
    for (kv_heads, _) in params.kv_heads.iter_mut().zip(&recurrent).filter(|(_, recurrent)| **recurrent) {
        *kv_heads = 0;
    }
    match params.kv_heads.iter().zip(&recurrent).position(|(&kv, &recurrent)| kv == 0 && !recurrent) {
        Some(layer) => Err(source.unsupported(format!(
            "layer {layer} of softmax attention without KV heads (attention.head_count_kv)"
        ))),
        None => Ok(recurrent),
    }
}

/// That the sections of a rotation, which are at the same position in text, are as many as there can be.
fn expect_sections(source: &Source<'_>) -> Result<(), ModelError> {
    const SECTIONS: &str = "{arch}.rope.dimension_sections";
    let meta = source.meta();
    match (meta.list_opt::<u32>(SECTIONS)?, meta.value(SECTIONS)?) {
        (Some(sections), Some(found)) if sections.len() != 4 => {
            Err(meta.wrong(SECTIONS, "4 sections".to_owned(), &found).into())
        }
        _ => Ok(()),
    }
}
