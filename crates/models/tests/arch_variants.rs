//! The same model in another form of file: the same bits.

#![allow(clippy::unwrap_used)]

#[path = "support/rewrite.rs"]
mod rewrite;

use std::sync::Arc;

use cera_core::{Runtime, SeqStep, Settings, Want};
use cera_models::gguf::{GgufFile, LoadMode};
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;
use cera_testkit::fixtures;
use cera_testkit::gguf::{GgufWriter, TensorEntry, array, ty};

/// A tensor of a file: name, dimensions, data.
type Tensor = (String, Vec<u64>, Vec<u8>);

/// A fixture whose tensors and metadata can be changed. All of its tensors are f32.
struct Changed {
    file: GgufFile,
    writer: GgufWriter,
    tensors: Vec<Tensor>,
}

impl Changed {
    /// The fixture of an architecture without some of its keys.
    fn new(name: &str, without: &str) -> Changed {
        let path = fixtures::dir().join(format!("arch/{name}/model.gguf"));
        let file = GgufFile::open(path, LoadMode::Read).unwrap();
        let writer = rewrite::writer_of_keys_but(&file, without);
        let data = |info| file.tensor_data(info).unwrap().to_vec();
        let tensors =
            file.tensors().iter().map(|i| (i.name().to_owned(), i.dims().to_vec(), data(i))).collect();
        Changed { file, writer, tensors }
    }

    fn layers(&self) -> usize {
        self.file.meta().u32("{arch}.block_count").unwrap() as usize
    }

    fn take(&mut self, name: &str) -> Tensor {
        let at = self.tensors.iter().position(|(known, ..)| known == name);
        self.tensors.remove(at.unwrap_or_else(|| panic!("no tensor {name}")))
    }

    /// Puts the rows of some tensors into one.
    fn join(&mut self, names: &[String], joined: &str) {
        let parts: Vec<Tensor> = names.iter().map(|name| self.take(name)).collect();
        let mut dims = parts[0].1.clone();
        let last = dims.len() - 1;
        dims[last] = parts.iter().map(|(_, dims, _)| dims[last]).sum();
        let data = parts.into_iter().flat_map(|(.., data)| data).collect();
        self.tensors.push((joined.to_owned(), dims, data));
    }

    /// Cuts the rows of a tensor into some with so many rows each.
    fn cut(&mut self, name: &str, parts: &[(String, u64)]) {
        let (_, dims, data) = self.take(name);
        let row = data.len() / dims[1] as usize;
        let mut from = 0;
        for (part, rows) in parts {
            let to = from + *rows as usize * row;
            self.tensors.push((part.clone(), vec![dims[0], *rows], data[from..to].to_vec()));
            from = to;
        }
        assert_eq!(from, data.len());
    }

    /// Puts some rows of some tensors into one: each is the name of a tensor, the first row and how many.
    fn pick(&mut self, rows: &[(String, usize, usize)], picked: &str) {
        let (mut data, mut dims) = (Vec::new(), Vec::new());
        for (name, first, count) in rows {
            let (_, from, bytes) = self.tensors.iter().find(|(known, ..)| known == name).unwrap();
            let row = bytes.len() / from[1] as usize;
            data.extend_from_slice(&bytes[first * row..(first + count) * row]);
            dims = vec![from[0], 0];
        }
        dims[1] = rows.iter().map(|(.., count)| *count as u64).sum();
        rows.iter().for_each(|(name, ..)| self.tensors.retain(|(known, ..)| known != name));
        self.tensors.push((picked.to_owned(), dims, data));
    }

    /// The bits of the logits of a short sequence that can grow to the model's context.
    fn bits(self) -> Vec<u32> {
        self.bits_with(512)
    }

    /// The bits of the logits of a short sequence that can grow to `limit` positions.
    fn bits_with(self, limit: usize) -> Vec<u32> {
        let mut writer = self.writer;
        for (name, dims, data) in &self.tensors {
            writer = writer.tensor_entry(TensorEntry::new(name, dims, 0, data));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("changed.gguf");
        std::fs::write(&path, writer.finish()).unwrap();
        let runtime: Arc<Runtime> = Runtime::from_settings(&Settings::from_env().unwrap()).unwrap();
        let mut all = Vec::new();
        for (repack, load) in [(true, LoadMode::Map), (true, LoadMode::Read), (false, LoadMode::Map)] {
            let options = ModelOptions { repack, load, ..ModelOptions::default() };
            let model = Model::load(&path, runtime.clone(), options).unwrap();
            let mut state = model.program().new_state(KvType::F32, limit);
            let tokens = [5, 77, 131, 9, 300, 2, 18];
            let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::All }];
            all.push(model.step(steps).unwrap().into_data().iter().map(|x| x.to_bits()).collect());
        }
        assert!(all.iter().all(|bits| *bits == all[0]), "packed, read and mapped differ");
        all.swap_remove(0)
    }
}

fn plain(name: &str) -> Vec<u32> {
    Changed::new(name, "").bits()
}

#[test]
fn joined_tensors_give_the_bits_of_single_ones() {
    for name in ["llama", "qwen2", "qwen3", "gemma3", "olmo2", "granite"] {
        let mut changed = Changed::new(name, "");
        for layer in 0..changed.layers() {
            let tensor = |name: &str| format!("blk.{layer}.{name}");
            changed.join(
                &["attn_q", "attn_k", "attn_v"].map(|n| tensor(&format!("{n}.weight"))),
                &tensor("attn_qkv.weight"),
            );
            changed.join(
                &["ffn_gate", "ffn_up"].map(|n| tensor(&format!("{n}.weight"))),
                &tensor("ffn_up.weight"),
            );
            if name == "qwen2" {
                changed.join(
                    &["attn_q", "attn_k", "attn_v"].map(|n| tensor(&format!("{n}.bias"))),
                    &tensor("attn_qkv.bias"),
                );
            }
        }
        assert!(changed.bits() == plain(name), "{name}");
    }
}

#[test]
fn single_tensors_give_the_bits_of_joined_ones() {
    let mut changed = Changed::new("phi3", "");
    for layer in 0..changed.layers() {
        let tensor = |name: &str| format!("blk.{layer}.{name}.weight");
        let parts = [("attn_q", 64), ("attn_k", 32), ("attn_v", 32)].map(|(n, rows)| (tensor(n), rows));
        changed.cut(&tensor("attn_qkv"), &parts);
        changed
            .cut(&tensor("ffn_up"), &[("ffn_gate", 96), ("ffn_up", 96)].map(|(n, rows)| (tensor(n), rows)));
    }
    assert!(changed.bits() == plain("phi3"));
}

#[test]
fn a_head_that_is_a_copy_of_the_embedding_gives_the_bits_of_a_tied_one() {
    for name in ["llama", "qwen3", "granite", "gemma3", "smollm3"] {
        let mut changed = Changed::new(name, "");
        let (_, dims, data) = changed.take("token_embd.weight");
        for name in ["token_embd.weight", "output.weight"] {
            changed.tensors.push((name.to_owned(), dims.clone(), data.clone()));
        }
        assert!(changed.bits() == plain(name), "{name}");
    }
}

#[test]
fn biases_of_zero_change_nothing() {
    let mut changed = Changed::new("llama", "");
    let rows: Vec<(String, u64)> = changed
        .tensors
        .iter()
        .filter(|(name, dims, _)| dims.len() == 2 && name != "token_embd.weight")
        .map(|(name, dims, _)| (name.replace(".weight", ".bias"), dims[1]))
        .collect();
    assert!(rows.len() >= 7 * changed.layers());
    for (name, rows) in rows {
        changed.tensors.push((name, vec![rows], vec![0; 4 * rows as usize]));
    }
    assert!(changed.bits() == plain("llama"));
}

#[test]
fn one_number_for_all_layers_is_one_for_each() {
    for key in ["attention.head_count", "attention.head_count_kv", "feed_forward_length"] {
        for name in ["granite", "llama", "gemma3"] {
            let full = format!("{}.{key}", Changed::new(name, "").file.meta().arch().unwrap());
            let mut changed = Changed::new(name, &full);
            let (layers, number) = (changed.layers(), changed.file.meta().u32(&full).unwrap());
            let elements = number.to_le_bytes().repeat(layers);
            changed.writer = changed.writer.kv_raw(&full, ty::ARRAY, array(ty::I32, layers as u64, elements));
            assert!(changed.bits() == plain(name), "{name}: {key}");
        }
    }
}

#[test]
fn granite_says_whether_heads_are_rotated() {
    let bits = |rotated: bool| {
        let mut changed = Changed::new("granite", "");
        changed.writer = changed.writer.kv_bool("granite.rope.scaling.finetuned", rotated);
        changed.bits()
    };
    let (plain, rotated, not) = (plain("granite"), bits(true), bits(false));
    let row = plain.len() / 7;
    assert!(plain == rotated && plain != not);
    // The first token is at position 0, where nothing turns.
    assert!(plain[..row] == not[..row]);
}

#[test]
fn the_limit_of_a_sequence_chooses_between_frequencies() {
    let factors = |factor: f32| factor.to_le_bytes().repeat(8);
    let both = |limit: usize| {
        let mut changed = Changed::new("phi3", "phi3.rope.scaling.original_context_length");
        changed.writer = changed.writer.kv_u32("phi3.rope.scaling.original_context_length", 64);
        for (name, factor) in [("short", 1.0), ("long", 3.0)] {
            changed.tensors.push((format!("rope_factors_{name}.weight"), vec![8], factors(factor)));
        }
        changed.bits_with(limit)
    };
    let mut long = Changed::new("phi3", "");
    long.tensors.push(("rope_freqs.weight".to_owned(), vec![8], factors(3.0)));
    let (long, short) = (long.bits(), plain("phi3"));
    assert!(long != short && both(64) == short && both(65) == long);
}

#[test]
fn the_magnitude_of_a_rotation_scales_queries_and_keys() {
    let bits = |magnitude: Option<f32>, scale: Option<f32>| {
        let mut changed = Changed::new("phi3", "");
        for (key, value) in [("rope.scaling.attn_factor", magnitude), ("attention.scale", scale)] {
            if let Some(value) = value {
                changed.writer = changed.writer.kv_f32(&format!("phi3.{key}"), value);
            }
        }
        changed.bits()
    };
    // Heads of 16, all rotated: twice the queries times twice the keys is four times the scale.
    assert!(bits(Some(2.0), None) == bits(None, Some(1.0)) && bits(None, None) == bits(None, Some(0.25)));
    assert!(bits(Some(2.0), None) != bits(None, None));
}

#[test]
fn inputs_of_linear_attention_may_stand_by_key_head() {
    let mut changed = Changed::new("qwen3next", "");
    // Two key heads, four heads of values, all of 32 elements.
    for layer in 0..3 {
        let tensor = |name: &str| format!("blk.{layer}.{name}.weight");
        let rows: Vec<(String, usize, usize)> = (0..2)
            .flat_map(|head| {
                let qkv = |first: usize, count: usize| (tensor("attn_qkv"), first, count);
                let z = (tensor("attn_gate"), 64 * head, 64);
                [qkv(32 * head, 32), qkv(64 + 32 * head, 32), qkv(128 + 64 * head, 64), z]
            })
            .collect();
        changed.pick(&rows, &tensor("ssm_in"));
    }
    assert!(changed.bits() == plain("qwen3next"));
}

#[test]
fn layers_that_predict_further_tokens_are_left_out() {
    for name in ["qwen35", "qwen3next"] {
        let mut changed = Changed::new(name, "");
        let counts = ["block_count", "attention.recurrent_layers"].map(|key| format!("{name}.{key}"));
        changed.writer =
            rewrite::writer_of_keys(&changed.file, |key| !counts.iter().any(|count| count == key))
                .kv_u32(&counts[0], 5)
                .kv_u32(&format!("{name}.nextn_predict_layers"), 1);
        let last: Vec<Tensor> =
            changed.tensors.iter().filter(|(name, ..)| name.starts_with("blk.3.")).cloned().collect();
        let further =
            last.into_iter().map(|(name, dims, data)| (name.replace("blk.3.", "blk.4."), dims, data));
        changed.tensors.extend(further);
        changed.tensors.push(("blk.4.nextn.enorm.weight".to_owned(), vec![1], vec![0; 4]));
        assert!(changed.bits() == plain(name), "{name}");
    }
}
