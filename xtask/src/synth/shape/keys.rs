//! The metadata of a model, keyed as llama.cpp's converters key them.

use super::layers::{LINEAR_TAPS, SHORT_TAPS};
use super::{ATTENTION_INTERVAL, Experts, Family, Latent, Linear, Shape};
use crate::synth::gguf::Header;

/// How DeepSeek-V2-Lite stretches its rotations: over what context it was trained, how far, and the logarithm's factor
/// (0.707) as converters write it.
const ORIGINAL_CONTEXT: u32 = 4096;
const STRETCH: f32 = 40.0;
const STRETCH_LOG_MULTIPLIER: f32 = 0.0707;

/// What `expert_gating_func` says of scores.
const SOFTMAX: u32 = 1;
const SIGMOID: u32 = 2;

/// Metadata under the name of the architecture.
struct Keys<'a> {
    arch: &'static str,
    header: &'a mut Header,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    fn u32(&mut self, key: &str, value: u32) {
        self.header.u32(&self.name(key), value);
    }

    fn f32(&mut self, key: &str, value: f32) {
        self.header.f32(&self.name(key), value);
    }
}

/// Appends the metadata of the shape.
pub(super) fn describe(shape: &Shape, header: &mut Header) {
    let arch = match shape.family {
        Family::Llama => "llama",
        Family::Qwen3Moe(_) => "qwen3moe",
        Family::Qwen3Next(..) => "qwen3next",
        Family::Lfm2Moe(_) => "lfm2moe",
        Family::DeepSeek2(..) => "deepseek2",
    };
    header.string("general.architecture", arch);
    header.string("general.name", &format!("random {}", shape.name));
    let mut keys = Keys { arch, header };
    keys.u32("context_length", shape.context);
    keys.u32("embedding_length", shape.hidden);
    keys.u32("block_count", shape.layers);
    keys.u32("feed_forward_length", shape.ffn);
    keys.u32("attention.head_count", shape.heads);
    kv_heads(shape, &mut keys);
    let rotated = match shape.family {
        Family::Qwen3Next(_, linear) => linear.rotated,
        Family::DeepSeek2(_, latent) => latent.rotated,
        Family::Llama | Family::Qwen3Moe(_) | Family::Lfm2Moe(_) => shape.head_dim,
    };
    keys.u32("rope.dimension_count", rotated);
    keys.f32("rope.freq_base", shape.rope_base);
    keys.f32("attention.layer_norm_rms_epsilon", shape.eps);
    keys.u32("vocab_size", shape.vocabulary);
    match shape.family {
        Family::Llama => {}
        Family::Qwen3Moe(experts) => {
            heads(shape, &mut keys);
            mixture(experts, &mut keys);
        }
        Family::Qwen3Next(experts, linear) => {
            heads(shape, &mut keys);
            mixture(experts, &mut keys);
            keys.u32("expert_shared_feed_forward_length", experts.shared_ffn);
            delta_rule(shape, linear, &mut keys);
        }
        Family::Lfm2Moe(experts) => {
            mixture(experts, &mut keys);
            keys.u32("leading_dense_block_count", experts.dense_layers);
            keys.u32("expert_gating_func", SIGMOID);
            keys.u32("shortconv.l_cache", SHORT_TAPS);
        }
        Family::DeepSeek2(experts, latent) => {
            mixture(experts, &mut keys);
            keys.u32("leading_dense_block_count", experts.dense_layers);
            keys.u32("expert_shared_count", experts.shared_ffn / experts.ffn);
            keys.f32("expert_weights_scale", 1.0);
            keys.u32("expert_gating_func", SOFTMAX);
            latent_attention(shape, latent, &mut keys);
        }
    }
}

/// The heads of keys and values: of every layer if layers differ.
fn kv_heads(shape: &Shape, keys: &mut Keys<'_>) {
    let key = "attention.head_count_kv";
    if !matches!(shape.family, Family::Lfm2Moe(_)) {
        return keys.u32(key, shape.kv_heads);
    }
    let of_layer = |layer| if shape.attends(layer) { shape.kv_heads as i32 } else { 0 };
    let heads: Vec<i32> = (0..shape.layers).map(of_layer).collect();
    keys.header.i32s(&keys.name(key), &heads);
}

fn heads(shape: &Shape, keys: &mut Keys<'_>) {
    keys.u32("attention.key_length", shape.head_dim);
    keys.u32("attention.value_length", shape.head_dim);
}

fn mixture(experts: Experts, keys: &mut Keys<'_>) {
    keys.u32("expert_count", experts.count);
    keys.u32("expert_used_count", experts.used);
    keys.u32("expert_feed_forward_length", experts.ffn);
}

fn delta_rule(shape: &Shape, linear: Linear, keys: &mut Keys<'_>) {
    keys.u32("ssm.conv_kernel", LINEAR_TAPS);
    keys.u32("ssm.state_size", linear.head_dim);
    keys.u32("ssm.group_count", linear.key_heads);
    keys.u32("ssm.time_step_rank", linear.value_heads);
    keys.u32("ssm.inner_size", linear.value_heads * linear.head_dim);
    keys.u32("full_attention_interval", ATTENTION_INTERVAL);
    let recurrent: Vec<bool> = (0..shape.layers).map(|layer| !shape.attends(layer)).collect();
    keys.header.bools(&keys.name("attention.recurrent_layers"), &recurrent);
}

fn latent_attention(shape: &Shape, latent: Latent, keys: &mut Keys<'_>) {
    // Without this key llama.cpp takes only the published number of layers for one whose queries have no rank.
    keys.u32("attention.q_lora_rank", 0);
    keys.u32("attention.kv_lora_rank", latent.rank);
    keys.u32("attention.key_length", latent.rank + latent.rotated);
    keys.u32("attention.value_length", latent.rank);
    keys.u32("attention.key_length_mla", shape.head_dim + latent.rotated);
    keys.u32("attention.value_length_mla", shape.head_dim);
    keys.header.string(&keys.name("rope.scaling.type"), "yarn");
    keys.f32("rope.scaling.factor", STRETCH);
    keys.u32("rope.scaling.original_context_length", ORIGINAL_CONTEXT);
    keys.f32("rope.scaling.yarn_log_multiplier", STRETCH_LOG_MULTIPLIER);
}
