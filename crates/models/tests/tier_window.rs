//! A sliding window in every layer of a Mistral, against the logits of transformers.

#![allow(clippy::unwrap_used)]

mod common;

use cera_core::{SeqStep, Want};
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;
use cera_testkit::fixtures::Fixture;
use cera_testkit::gguf::{GgufWriter, TensorEntry};
use cera_testkit::measure::Distance;
use common::TestRuntime;

const FOLDER: &str = "safetensors/f16-mistral-swa";
/// The type of tensors of half precision in a GGUF file.
const F16: u32 = 1;
const HEAD_DIM: usize = 32;

/// The names of a layer's tensors in the two formats.
const NAMES: [(&str, &str); 9] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// The rows of queries or keys as llama files have them: those that are rotated together are neighbours, not half a head
/// apart.
fn neighbours(data: &[u16], row: usize) -> Vec<u16> {
    let half = HEAD_DIM / 2;
    let from = |i: usize| (i / HEAD_DIM * HEAD_DIM) + i % HEAD_DIM / 2 + i % 2 * half;
    (0..data.len() / row).flat_map(|i| data[from(i) * row..][..row].to_vec()).collect()
}

/// The folder as a GGUF file with this window.
fn gguf(window: u32) -> Vec<u8> {
    let source = Fixture::open(&format!("{FOLDER}/model.safetensors"));
    let mut writer = GgufWriter::new()
        .kv_str("general.architecture", "llama")
        .kv_u32("llama.block_count", 2)
        .kv_u32("llama.context_length", 512)
        .kv_u32("llama.embedding_length", 128)
        .kv_u32("llama.feed_forward_length", 256)
        .kv_u32("llama.attention.head_count", 4)
        .kv_u32("llama.attention.head_count_kv", 2)
        .kv_u32("llama.attention.sliding_window", window)
        .kv_f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    let mut add = |from: &str, to: &str| {
        let tensor = source.f16(from);
        let dims: Vec<u64> = tensor.shape.iter().rev().map(|&d| d as u64).collect();
        let data = match to.contains("attn_q.") || to.contains("attn_k.") {
            true => neighbours(&tensor.data, tensor.shape[1]),
            false => tensor.data,
        };
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer = writer.clone().tensor_entry(TensorEntry::new(to, &dims, F16, bytes));
    };
    add("model.embed_tokens.weight", "token_embd.weight");
    add("model.norm.weight", "output_norm.weight");
    add("lm_head.weight", "output.weight");
    for layer in 0..2 {
        for (from, to) in NAMES {
            add(&format!("model.layers.{layer}.{from}.weight"), &format!("blk.{layer}.{to}.weight"));
        }
    }
    writer.finish()
}

#[test]
fn a_sliding_window_agrees_with_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::with_threads(2);
    let reference = Fixture::open(&format!("{FOLDER}/reference.safetensors"));
    let tokens: Vec<u32> = reference.i32("tokens").data.iter().map(|&t| t as u32).collect();
    let distance = |window: u32| {
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, gguf(window)).unwrap();
        let model = Model::load(&path, runtime.share(), ModelOptions::default()).unwrap();
        let mut state = model.new_state(KvType::F32);
        let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::All }];
        let logits = model.step(steps).unwrap().into_data();
        Distance::new(&logits, &reference.f32("logits").data, model.vocabulary())
    };
    let d = distance(8);
    assert!(d.rel <= 1e-5 && d.max_abs <= 2e-4, "rel {:e}, max abs {:e}", d.rel, d.max_abs);
    for other in [0, 7, 9] {
        let d = distance(other);
        assert!(d.rel > 1e-3, "the window does not matter: {other}, rel {:e}", d.rel);
    }
}
