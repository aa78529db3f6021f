//! The reference fixtures open, and hold what they should.

use std::path::PathBuf;

use cera_models::gguf::{GgufFile, GgufSet, LoadMode};

/// Every GGUF file of the fixtures.
fn fixtures() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join("arch")).unwrap() {
        found.push(entry.unwrap().path().join("model.gguf"));
    }
    for folder in ["quant", "quant-arch", "tokenizers"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        found.extend(
            entries.map(|entry| entry.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "gguf")),
        );
    }
    found.sort();
    assert!(found.len() >= 17, "only {} fixtures found", found.len());
    found
}

#[test]
fn both_modes_give_the_same() {
    for path in fixtures() {
        let map = GgufFile::open(&path, LoadMode::Map).unwrap();
        let read = GgufFile::open(&path, LoadMode::Read).unwrap();
        assert_eq!(map.metadata().len(), read.metadata().len());
        for ((key_a, a), (key_b, b)) in map.metadata().zip(read.metadata()) {
            assert_eq!((key_a, format!("{a:?}")), (key_b, format!("{b:?}")));
        }
        assert_eq!(map.tensors().len(), read.tensors().len());
        for (a, b) in map.tensors().iter().zip(read.tensors()) {
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
            assert!(map.tensor_data(a) == read.tensor_data(b), "{}: {}", path.display(), a.name());
            assert_eq!(read.tensor_data(b).as_ptr() as usize % 32, 0);
        }
    }
}

#[test]
fn a_model_has_its_layers_and_tensors() {
    for path in fixtures() {
        let set = GgufSet::open(&path, LoadMode::Map).unwrap();
        if set.tensors().is_empty() {
            continue;
        }
        let layers = set.layer_count().unwrap();
        let kv_heads: Vec<u32> = set.meta().per_layer("{arch}.attention.head_count_kv", layers).unwrap();
        assert_eq!(kv_heads.len(), layers);
        let embedding = set.expect_tensor("token_embd.weight").unwrap();
        assert_eq!(embedding.row_len(), set.meta().usize("{arch}.embedding_length").unwrap());
        let tokens = set.meta().strings("tokenizer.ggml.tokens").unwrap();
        assert_eq!(embedding.rows(), tokens.len());
        for (i, token) in tokens.iter().enumerate() {
            assert_eq!(tokens.get(i), Some(token));
        }
        assert_eq!(tokens.get(tokens.len()), None);
    }
}
