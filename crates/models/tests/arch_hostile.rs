//! Models whose hyper-parameters or tensors are not what the architecture asks for: an error that names what is wrong.

#![allow(clippy::unwrap_used)]

#[path = "support/rewrite.rs"]
mod rewrite;

use std::path::Path;
use std::sync::Arc;

use cera_core::{Runtime, SeqStep, Settings, Want};
use cera_models::gguf::{GgufFile, LoadMode, Value};
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;
use cera_testkit::fixtures;
use cera_testkit::gguf::{GgufWriter, TensorEntry, ty};

/// Writes the tensors of `file` but one after the metadata of `writer`.
fn finish(file: &GgufFile, mut writer: GgufWriter, left_out: &str) -> Vec<u8> {
    for info in file.tensors().iter().filter(|info| info.name() != left_out) {
        let data = file.tensor_data(info).unwrap();
        writer = writer.tensor_entry(TensorEntry::new(info.name(), info.dims(), info.ty().id(), &*data));
    }
    writer.finish()
}

/// The message of the error, or that of a step if the model loads.
fn outcome(path: &Path, runtime: &Arc<Runtime>) -> Result<(), String> {
    let model = Model::load(path, runtime.clone(), ModelOptions::default()).map_err(|e| e.to_string())?;
    let mut state = model.program().new_state(KvType::F32, 64);
    let steps = &mut [SeqStep { state: &mut state, tokens: &[1, 2, 3], want: Want::All }];
    model.step(steps).map(drop).map_err(|e| e.to_string())
}

/// A change of one metadata value, and whether it must be refused.
struct Change {
    what: &'static str,
    type_id: u32,
    value: Vec<u8>,
    refused: bool,
}

/// Changes of a value of the file for `layers` layers.
fn changes(key: &str, value: Value<'_>, layers: usize) -> Vec<Change> {
    let change = |what, type_id, value, refused| Change { what, type_id, value, refused };
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let array = |type_id: u32, count: usize, element: Vec<u8>| {
        let mut value = type_id.to_le_bytes().to_vec();
        value.extend((count as u64).to_le_bytes());
        value.extend(element.repeat(count));
        value
    };
    // Zero says that there is none of it.
    let optional = [
        "sliding_window",
        "softcapping",
        "rope.scaling.factor",
        "leading_dense_block_count",
        "expert_count",
        "expert_shared_count",
        "expert_feed_forward_length",
        "expert_shared_feed_forward_length",
        "expert_gating_func",
        "expert_group_count",
        "expert_weights_scale",
        "q_lora_rank",
    ];
    let optional = optional.iter().any(|end| key.ends_with(end));
    // Read by tokenizers and other programs.
    let read = !key.ends_with("vocab_size");
    let mut all = vec![change("a string", ty::STRING, cera_testkit::gguf::string("many"), read)];
    match value {
        Value::F32(x) => {
            for (what, x, refused) in [
                ("zero", 0.0, !optional),
                ("not a number", f32::NAN, true),
                ("negative", -x, true),
                ("infinite", f32::INFINITY, true),
            ] {
                all.push(change(what, ty::F32, x.to_le_bytes().to_vec(), read && refused));
            }
        }
        Value::U32(n) => {
            all.push(change("zero", ty::U32, u32s(0), read && !optional));
            all.push(change("one more", ty::U32, u32s(n + 1), false));
            all.push(change("twice as many", ty::U32, u32s(2 * n), false));
            all.push(change("very many", ty::U32, u32s(u32::MAX), false));
            all.push(change("negative", ty::I32, (-1i32).to_le_bytes().to_vec(), read));
            for (what, count) in
                [("an array too long", layers + 1), ("an empty array", 0), ("88 elements", 88)]
            {
                all.push(change(what, ty::ARRAY, array(ty::U32, count, u32s(n)), read));
            }
            all.push(change("one per layer", ty::ARRAY, array(ty::U32, layers, u32s(n)), false));
        }
        Value::Array(_) => {
            for (what, count) in [("too long", layers + 1), ("empty", 0), ("88 elements", 88)] {
                all.push(change(what, ty::ARRAY, array(ty::U32, count, u32s(2)), true));
            }
        }
        Value::Bool(x) => {
            all.push(change("the contrary", ty::BOOL, vec![u8::from(!x)], false));
            all.push(change("a number", ty::U32, u32s(1), read));
        }
        Value::Str(_) => all.push(change("a number", ty::U32, u32s(1), read)),
        other => panic!("{key}: {other:?} needs changes of its own"),
    }
    all
}

/// Runs every change of the metadata of a model and gives what went wrong.
fn metadata_faults(name: &str, runtime: &Arc<Runtime>) -> Vec<String> {
    let file =
        GgufFile::open(fixtures::dir().join(format!("arch/{name}/model.gguf")), LoadMode::Read).unwrap();
    let layers = file.meta().u32("{arch}.block_count").unwrap() as usize;
    let prefix = format!("{}.", file.meta().arch().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.gguf");
    let mut faults = Vec::new();
    let mut tested = 0;
    for (key, value) in file.metadata().filter(|(key, _)| key.starts_with(&prefix)) {
        for change in changes(key, value, layers) {
            let writer = rewrite::writer_of_keys_but(&file, key).kv_raw(key, change.type_id, &change.value);
            std::fs::write(&path, finish(&file, writer, "")).unwrap();
            tested += 1;
            let result = outcome(&path, runtime);
            let short = key.strip_prefix(&prefix).unwrap();
            let fault = match &result {
                Ok(()) if change.refused => Some("accepted"),
                // What fits the type but not the tensors is told by the tensor or the operation.
                Err(message) if change.refused && !message.contains(short) => Some("another key is named"),
                Err(message) if !(message.contains(short) || message.contains("tensor ")) => {
                    Some("neither key nor tensor is named")
                }
                _ => None,
            };
            faults.extend(fault.map(|fault| format!("{name}: {key} {}: {fault}: {result:?}", change.what)));
        }
    }
    assert!(tested >= 50, "{name}: {tested} changes");
    faults
}

fn runtime() -> Arc<Runtime> {
    Runtime::from_settings(&Settings::from_env().unwrap()).unwrap()
}

#[test]
fn wrong_hyper_parameters_are_errors_that_name_them() {
    let runtime = runtime();
    let faults: Vec<String> =
        fixtures::ARCHITECTURES.iter().flat_map(|name| metadata_faults(name, &runtime)).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn missing_keys_are_errors_that_name_them_unless_they_have_defaults() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.gguf");
    let needed = [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ];
    for name in fixtures::ARCHITECTURES {
        let file =
            GgufFile::open(fixtures::dir().join(format!("arch/{name}/model.gguf")), LoadMode::Read).unwrap();
        for key in needed {
            let key = file.meta().key(&format!("{{arch}}.{key}")).unwrap().into_owned();
            let writer = rewrite::writer_of_keys_but(&file, &key);
            std::fs::write(&path, finish(&file, writer, "")).unwrap();
            let message = outcome(&path, &runtime).unwrap_err();
            assert!(message.contains(&key), "{name} without {key}: {message}");
        }
    }
}

#[test]
fn missing_tensors_are_errors_that_name_them() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.gguf");
    let mut faults = Vec::new();
    for name in fixtures::ARCHITECTURES {
        let file =
            GgufFile::open(fixtures::dir().join(format!("arch/{name}/model.gguf")), LoadMode::Read).unwrap();
        let first = |tensor: &str| !tensor.starts_with("blk.") || tensor.starts_with("blk.0.");
        for info in file.tensors().iter().filter(|info| first(info.name())) {
            let tensor = info.name();
            // A head without a tensor is the embedding; a bias and stretched frequencies may be absent.
            if tensor == "output.weight" || tensor.ends_with(".bias") || tensor.starts_with("rope_") {
                continue;
            }
            let writer = rewrite::writer_of_keys_but(&file, "");
            std::fs::write(&path, finish(&file, writer, tensor)).unwrap();
            let message = outcome(&path, &runtime).map_or_else(|message| message, |()| "accepted".to_owned());
            // Either form of joined tensors would do, so that the other one is missing.
            let named = match tensor {
                "blk.0.ffn_gate.weight" => "blk.0.ffn_up.weight",
                "blk.0.ffn_up.weight" if file.tensor("blk.0.ffn_gate.weight").is_none() => {
                    "blk.0.ffn_gate.weight"
                }
                "blk.0.attn_qkv.weight" if file.tensor("blk.0.ssm_conv1d.weight").is_none() => {
                    "blk.0.attn_q.weight"
                }
                "blk.0.ssm_ba.weight" => "blk.0.ssm_alpha.weight",
                _ => tensor,
            };
            if !message.contains(named) {
                faults.push(format!("{name} without {tensor}: {message}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
