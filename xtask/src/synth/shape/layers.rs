//! The tensors of a layer, named as llama.cpp's converters name them.

use super::{Experts, Family, Latent, Linear, Role, Shape, Tensor};

/// Inputs that a convolution sees: of the gated delta rule, and of a short convolution.
pub(super) const LINEAR_TAPS: u32 = 4;
pub(super) const SHORT_TAPS: u32 = 3;

/// The tensors of a layer in the order of the file.
pub(super) fn tensors(shape: &Shape, layer: u32) -> Vec<Tensor> {
    let mut list = List { layer, tensors: Vec::new() };
    let hidden = shape.hidden;
    list.norm("attn_norm", hidden);
    match shape.family {
        Family::Lfm2Moe(_) if !shape.attends(layer) => short_convolution(hidden, &mut list),
        Family::Qwen3Next(_, linear) if !shape.attends(layer) => delta_rule(hidden, linear, &mut list),
        Family::DeepSeek2(_, latent) => latent_attention(shape, latent, &mut list),
        family => attention(shape, family, &mut list),
    }
    let norm = if matches!(shape.family, Family::Qwen3Next(..)) { "post_attention_norm" } else { "ffn_norm" };
    list.norm(norm, hidden);
    match shape.family {
        Family::Qwen3Moe(experts)
        | Family::Qwen3Next(experts, _)
        | Family::Lfm2Moe(experts)
        | Family::DeepSeek2(experts, _)
            if layer >= experts.dense_layers =>
        {
            mixture(shape, experts, &mut list);
        }
        _ => feed_forward(hidden, shape.ffn, "", &[], &mut list),
    }
    list.tensors
}

/// The tensors of a layer so far.
struct List {
    layer: u32,
    tensors: Vec<Tensor>,
}

impl List {
    fn name(&self, part: &str) -> String {
        format!("blk.{}.{part}", self.layer)
    }

    fn norm(&mut self, part: &str, len: u32) {
        self.tensors.push(Tensor::norm(self.name(&format!("{part}.weight")), len));
    }

    /// A vector of any name, without `.weight`.
    fn vector(&mut self, name: &str, len: u32, center: f32, spread: f32) {
        self.tensors.push(Tensor::vector(self.name(name), len, center, spread));
    }

    fn matrix(&mut self, part: &str, role: Role, dims: &[u32]) {
        self.tensors.push(Tensor::matrix(self.name(&format!("{part}.weight")), role, dims));
    }
}

fn attention(shape: &Shape, family: Family, list: &mut List) {
    let Shape { hidden, heads, kv_heads, head_dim, .. } = *shape;
    // The queries of Qwen3-Next come with a gate each.
    let gates = if matches!(family, Family::Qwen3Next(..)) { 2 } else { 1 };
    list.matrix("attn_q", Role::Other, &[hidden, gates * heads * head_dim]);
    list.matrix("attn_k", Role::Other, &[hidden, kv_heads * head_dim]);
    list.matrix("attn_v", Role::AttnV, &[hidden, kv_heads * head_dim]);
    list.matrix("attn_output", Role::AttnOutput, &[heads * head_dim, hidden]);
    if !matches!(family, Family::Llama) {
        list.norm("attn_q_norm", head_dim);
        list.norm("attn_k_norm", head_dim);
    }
}

fn latent_attention(shape: &Shape, Latent { rank, rotated }: Latent, list: &mut List) {
    let Shape { hidden, heads, head_dim, .. } = *shape;
    list.matrix("attn_q", Role::Other, &[hidden, heads * (head_dim + rotated)]);
    list.matrix("attn_kv_a_mqa", Role::Other, &[hidden, rank + rotated]);
    list.norm("attn_kv_a_norm", rank);
    list.matrix("attn_k_b", Role::Other, &[head_dim, rank, heads]);
    list.matrix("attn_v_b", Role::Other, &[rank, head_dim, heads]);
    list.matrix("attn_output", Role::AttnOutput, &[heads * head_dim, hidden]);
}

fn short_convolution(hidden: u32, list: &mut List) {
    list.matrix("shortconv.conv", Role::Unquantized, &[SHORT_TAPS, hidden]);
    list.matrix("shortconv.in_proj", Role::Other, &[hidden, 3 * hidden]);
    list.matrix("shortconv.out_proj", Role::Other, &[hidden, hidden]);
}

fn delta_rule(hidden: u32, linear: Linear, list: &mut List) {
    let Linear { key_heads, value_heads, head_dim, .. } = linear;
    let values = value_heads * head_dim;
    let channels = 2 * key_heads * head_dim + values;
    // A step multiplies the state by the exponential of `ssm_a` times a positive number.
    list.vector("ssm_a", value_heads, -1.0, 0.3);
    list.matrix("ssm_conv1d", Role::Unquantized, &[LINEAR_TAPS, channels]);
    list.vector("ssm_dt.bias", value_heads, -2.0, 1.0);
    list.matrix("ssm_ba", Role::Other, &[hidden, 2 * value_heads]);
    list.matrix("attn_qkv", Role::AttnV, &[hidden, channels]);
    list.matrix("attn_gate", Role::Other, &[hidden, values]);
    list.norm("ssm_norm", head_dim);
    list.matrix("ssm_out", Role::Other, &[values, hidden]);
}

fn mixture(shape: &Shape, experts: Experts, list: &mut List) {
    let hidden = shape.hidden;
    list.matrix("ffn_gate_inp", Role::Unquantized, &[hidden, experts.count]);
    if matches!(shape.family, Family::Lfm2Moe(_)) {
        list.vector("exp_probs_b.bias", experts.count, 0.0, 0.02);
    }
    feed_forward(hidden, experts.ffn, "_exps", &[experts.count], list);
    if experts.shared_ffn > 0 {
        feed_forward(hidden, experts.shared_ffn, "_shexp", &[], list);
    }
    if matches!(shape.family, Family::Qwen3Next(..)) {
        list.matrix("ffn_gate_inp_shexp", Role::Unquantized, &[hidden, 1]);
    }
}

/// The three matrices, or as many stacks of them as the dimension after rows and inputs says.
fn feed_forward(hidden: u32, ffn: u32, suffix: &str, stack: &[u32], list: &mut List) {
    let dims = |inputs, rows| [&[inputs, rows], stack].concat();
    list.matrix(&format!("ffn_gate{suffix}"), Role::Other, &dims(hidden, ffn));
    list.matrix(&format!("ffn_up{suffix}"), Role::Other, &dims(hidden, ffn));
    list.matrix(&format!("ffn_down{suffix}"), Role::FfnDown, &dims(ffn, hidden));
}
