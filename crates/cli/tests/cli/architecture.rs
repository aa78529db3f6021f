//! Sound files that do not describe a model that can run: `inspect` lists them and says why, `logits` refuses.

use std::path::Path;

use cera_quant::Format;
use cera_testkit::gguf::{GgufWriter, TensorEntry, string, ty};
use cera_testkit::toy::{Shape, Toy};

use crate::program::{Folder, cera, json, logits, logits_failure, run};

/// What `logits` says about a file that it refuses. `inspect` must list the file and say the same.
fn refusal(path: &Path) -> String {
    let message = logits_failure(path, &[1], &[]);
    let report = json(cera().arg("inspect").arg(path));
    assert_eq!(report["no_kernels"], *message);
    for tensor in report["tensors"].as_array().expect("tensors") {
        assert!(tensor["prefill"].is_null() && tensor["decode"].is_null(), "{tensor}");
    }
    let text = run(&[&"inspect", &path]).success();
    assert!(text.ends_with(&format!("\nno kernels stated: {message}\n")), "{text}");
    let prefix = format!("{}: ", path.display());
    message.strip_prefix(&prefix).expect("a message that begins with the file").to_owned()
}

fn toy() -> Toy {
    Toy::new(Shape::SMALL, |_| Format::Q4_0)
}

/// What is said about the toy model after this was done to it.
fn after(spoil: impl FnOnce(&mut Toy)) -> String {
    let mut toy = toy();
    spoil(&mut toy);
    refusal(&Folder::new().write("toy.gguf", toy.finish()))
}

#[test]
fn the_toy_model_runs() {
    let folder = Folder::new();
    let model = folder.write("toy.gguf", toy().finish());
    let untied = logits(&model, &[1, 2], &[]);
    assert_eq!((untied.rows, untied.vocabulary), (2, 40));
    let mut tied = toy();
    tied.remove("output.weight");
    assert_ne!(logits(&folder.write("tied.gguf", tied.finish()), &[1, 2], &[]), untied);
}

#[test]
fn layers_are_those_that_have_tensors() {
    for count in [0, 3, 513, 1 << 31, u32::MAX] {
        let message = after(|toy| toy.set_u32("llama.block_count", count));
        let expected = "metadata key llama.block_count: expected 1 to 2, the layers that have tensors";
        assert_eq!(message, format!("{expected}, found u32 {count}"));
    }
    // A name does not make layers: the count is never taken for the size of a table.
    let message = after(|toy| {
        toy.set_u32("llama.block_count", u32::MAX);
        toy.tensors.push(TensorEntry::new("blk.4294967295.x", &[8], 0, [0; 32]));
        toy.unset("llama.attention.head_count_kv");
    });
    assert!(message.contains("llama.block_count: expected 1 to 22, "), "{message}");
}

#[test]
fn heads_must_fit_each_other_and_the_width() {
    let heads = |heads, kv| {
        after(|toy| {
            toy.set_u32("llama.attention.head_count", heads);
            toy.set_u32("llama.attention.head_count_kv", kv);
        })
    };
    let zero = "metadata key llama.attention.head_count: expected an integer of at least 1, found u32 0";
    assert_eq!(heads(0, 2), zero);
    let none = "layer 0 without KV heads (attention.head_count_kv) is not supported";
    assert_eq!(heads(4, 0), none);
    for (q, kv) in [(4, 8), (4, 3), (1, 2), (4, u32::MAX)] {
        let expected = format!("{q} query heads on {kv} KV heads (attention.head_count_kv) is not supported");
        assert_eq!(heads(q, kv), expected);
    }
    let uneven = "heads (embedding_length, attention.head_count) is not supported";
    assert_eq!(heads(5, 5), format!("a width of 32 on 5 {uneven}"));
    assert_eq!(heads(u32::MAX, 1), format!("a width of 32 on 4294967295 {uneven}"));
    let dims = |key: &str, value| after(|toy| toy.set_u32(key, value));
    let keys = "(attention.head_count, attention.key_length, attention.value_length, rope.dimension_count)";
    let unfit =
        |k, v, rope| format!("heads of {k} and {v} with {rope} rotated elements {keys} is not supported");
    assert_eq!(dims("llama.attention.key_length", 0), unfit(0, 0, 0));
    assert_eq!(dims("llama.attention.value_length", 0), unfit(8, 0, 8));
    assert_eq!(dims("llama.rope.dimension_count", 7), unfit(8, 8, 7));
    assert_eq!(dims("llama.rope.dimension_count", 10), unfit(8, 8, 10));
}

#[test]
fn tensors_must_be_there_in_their_shape() {
    assert_eq!(after(|toy| toy.remove("token_embd.weight")), "tensor token_embd.weight is missing");
    assert_eq!(after(|toy| toy.remove("blk.1.ffn_up.weight")), "tensor blk.1.ffn_up.weight is missing");
    assert_eq!(after(|toy| toy.remove("output_norm.weight")), "tensor output_norm.weight is missing");
    let message = after(|toy| toy.tensor_mut("blk.1.ffn_down.weight").dims.swap(0, 1));
    let name = "tensor blk.1.ffn_down.weight";
    assert_eq!(message, format!("{name} has dimensions [32, 64], expected [64, 32]"));
    let message = after(|toy| toy.set_u32("llama.embedding_length", 64));
    assert_eq!(message, "tensor token_embd.weight has dimensions [32, 40], expected [64, 40]");
    let message = after(|toy| toy.set_u32("llama.feed_forward_length", u32::MAX));
    assert_eq!(message, "tensor blk.0.ffn_gate.weight has dimensions [32, 64], expected [32, 4294967295]");
    let message = after(|toy| toy.set_u32("llama.attention.key_length", u32::MAX - 1));
    assert!(message.starts_with("tensor blk.0.attn_q.weight has dimensions [32, 32], expected"), "{message}");
    let message = after(|toy| toy.tensor_mut("blk.0.attn_q.weight").dims = vec![32, 16, 2]);
    assert!(
        message.contains("blk.0.attn_q.weight has dimensions [32, 16, 2], expected [32, 32]"),
        "{message}"
    );
}

#[test]
fn types_without_kernels_are_named_with_their_tensor() {
    let retyped = |name: &str, dims: &[u64], id: u32, bytes: usize| {
        let mut toy = Toy::new(Shape { hidden: 256, ..Shape::SMALL }, |_| Format::Q8_0);
        *toy.tensor_mut(name) = TensorEntry::new(name, dims, id, vec![0; bytes]);
        refusal(&Folder::new().write("toy.gguf", toy.finish()))
    };
    for (id, ty, block) in [(16, "IQ2_XXS", 66), (19, "IQ1_S", 50), (34, "TQ1_0", 54)] {
        let message = retyped("blk.1.attn_k.weight", &[256, 128], id, 128 * block);
        assert_eq!(message, format!("type {ty} of tensor blk.1.attn_k.weight is not supported"));
    }
    let message = retyped("output_norm.weight", &[256], 26, 1024);
    assert_eq!(message, "type I32 of tensor output_norm.weight is not supported");
}

#[test]
fn architectures_and_features_without_implementation_are_named() {
    let named = |name: &str| after(|toy| toy.set("general.architecture", ty::STRING, string(name)));
    let supported = "is not supported; supported: deepseek2, gemma3, gpt-oss, granite, granitehybrid, lfm2, lfm2moe, \
                     llama, olmo2, phi3, qwen2, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, smollm3";
    assert_eq!(named("mamba"), format!("architecture mamba {supported}"));
    assert_eq!(named("LLAMA"), format!("architecture LLAMA {supported}"));
    assert_eq!(named(""), format!("architecture  {supported}"));
    assert_eq!(named("a\nb\u{1b}"), format!("architecture a\\nb\\u{{1b}} {supported}"));
    let missing = after(|toy| toy.unset("general.architecture"));
    assert_eq!(missing, "metadata key general.architecture is missing");
    let experts = after(|toy| toy.set_u32("llama.expert_count", 8));
    assert_eq!(experts, "metadata key llama.expert_used_count is missing");
    let warp = after(|toy| toy.set("llama.rope.scaling.type", ty::STRING, string("warp")));
    assert_eq!(warp, "RoPE scaling warp (rope.scaling.type) is not supported");
}

#[test]
fn every_key_that_is_needed_is_named_when_it_is_missing() {
    for key in [
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        assert_eq!(after(|toy| toy.unset(key)), format!("metadata key {key} is missing"));
        let message = after(|toy| toy.set(key, ty::STRING, string("2")));
        assert!(message.starts_with(&format!("metadata key {key}: expected ")), "{message}");
        assert!(message.ends_with("found string \"2\""), "{message}");
    }
}

#[test]
fn a_vocabulary_is_listed_but_not_run() {
    let tokens = (0..40).map(|i| format!("token {i}"));
    let vocabulary = GgufWriter::new()
        .kv_str("general.architecture", "llama")
        .kv_u32("llama.block_count", 32)
        .kv_strs("tokenizer.ggml.tokens", tokens)
        .finish();
    let path = Folder::new();
    let path = path.write("vocabulary.gguf", vocabulary);
    let says = "the file has no tensors: it holds a vocabulary or other metadata, not a model";
    assert_eq!(refusal(&path), says);
    let text = run(&[&"inspect", &path]).success();
    assert!(text.contains("tokenizer.ggml.tokens  string[40]  [\"token 0\","), "{text}");
}
