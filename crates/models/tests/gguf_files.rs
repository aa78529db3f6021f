//! Sound files: the reference fixtures, files written anew, truncated files, and models in shards.

use std::path::{Path, PathBuf};

use cera_models::gguf::{Element, GgufError, GgufFile, GgufSet, LoadMode, TensorType, Value};
use cera_testkit::gguf::{GgufWriter, TensorEntry, sample};

#[path = "support/roundtrip.rs"]
mod roundtrip;

/// Every GGUF file of the fixtures.
fn fixtures() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let mut found = Vec::new();
    for folder in ["arch", "quant", "quant-arch", "tokenizers"] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            found.extend([entry.path(), entry.path().join("model.gguf")]);
        }
    }
    found.retain(|path| path.is_file() && path.extension().is_some_and(|ext| ext == "gguf"));
    found.sort();
    assert!(found.len() >= 17, "only {} fixtures found", found.len());
    found
}

/// A model is shared by the threads that compute with it.
const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<GgufSet>();
    shared::<GgufError>();
};

#[test]
fn both_modes_give_the_bytes_of_the_file() {
    for path in fixtures() {
        let bytes = std::fs::read(&path).unwrap();
        for mode in [LoadMode::Map, LoadMode::Read] {
            let file = GgufFile::open(&path, mode).unwrap();
            assert_eq!(file.byte_len(), bytes.len());
            for info in file.tensors() {
                let data = file.tensor_data(info).unwrap();
                assert!(data[..] == bytes[info.file_range()], "{}: {}", file.name(), info.name());
                assert_eq!(data.as_ptr() as usize % 32, 0);
                let blocks = info.elements() as usize / info.ty().block_len();
                assert_eq!(data.len(), blocks * info.ty().block_bytes());
                assert_eq!((info.row_len() * info.rows()) as u64, info.elements());
            }
            assert!(roundtrip::rewrite(&file) == bytes, "{} written anew differs", file.name());
            roundtrip::check(&file, &bytes);
        }
    }
}

#[test]
fn a_model_has_its_layers_and_tensors() {
    for path in fixtures() {
        let set = GgufSet::open(&path, LoadMode::Map).unwrap();
        let tokens = set.meta().strings("tokenizer.ggml.tokens").unwrap();
        assert!(tokens.iter().enumerate().all(|(i, token)| tokens.get(i) == Some(token)));
        assert_eq!((tokens.get(tokens.len()), tokens.iter().len()), (None, tokens.len()));
        if set.tensors().is_empty() {
            continue;
        }
        let layers = set.layer_count().unwrap();
        let kv_heads: Vec<u32> = set.meta().per_layer("{arch}.attention.head_count_kv", layers).unwrap();
        assert_eq!(kv_heads.len(), layers);
        let embedding = set.expect_tensor("token_embd.weight").unwrap();
        assert_eq!(embedding.row_len(), set.meta().usize("{arch}.embedding_length").unwrap());
        assert_eq!(embedding.rows(), tokens.len());
        assert!(
            set.expect_tensor("no.such.tensor")
                .unwrap_err()
                .to_string()
                .contains("no.such.tensor is missing")
        );
    }
}

#[test]
fn released_and_prefetched_pages_keep_their_content() {
    let path = fixtures().into_iter().find(|path| path.ends_with("model-F16.gguf")).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for mode in [LoadMode::Map, LoadMode::Read] {
        let set = GgufSet::open(&path, mode).unwrap();
        for info in set.tensors() {
            set.release(info);
            assert!(set.tensor_data(info).unwrap()[..] == bytes[info.file_range()]);
            set.prefetch(info);
            assert!(set.tensor_data(info).unwrap()[..] == bytes[info.file_range()]);
        }
    }
}

#[test]
fn every_kind_of_value_is_read() {
    for version in [2, 3] {
        let bytes = sample(version).finish();
        let file = GgufFile::parse("sample", bytes.clone()).unwrap();
        assert_eq!((file.version(), file.alignment(), file.metadata().len()), (version, 64, 21));
        assert_eq!(file.metadata().nth(4).map(|(key, _)| key), Some("u32"));
        assert!(matches!(file.get("u8"), Some(Value::U8(200))));
        assert!(matches!(file.get("i8"), Some(Value::I8(-100))));
        assert!(matches!(file.get("u16"), Some(Value::U16(60_000))));
        assert!(matches!(file.get("i16"), Some(Value::I16(-30_000))));
        assert!(matches!(file.get("u32"), Some(Value::U32(4_000_000_000))));
        assert!(matches!(file.get("i32"), Some(Value::I32(-2_000_000_000))));
        assert!(matches!(file.get("u64"), Some(Value::U64(u64::MAX))));
        assert!(matches!(file.get("i64"), Some(Value::I64(i64::MIN))));
        assert!(matches!(file.get("f32"), Some(Value::F32(v)) if v == 0.1));
        assert!(matches!(file.get("f64"), Some(Value::F64(v)) if v == 0.1));
        assert!(matches!(file.get("bool"), Some(Value::Bool(true))));
        assert_eq!(file.get("not utf-8").and_then(|value| value.as_bytes()), Some(&b"\xff\xfe"[..]));
        assert!(file.get("none").is_none());
        assert_eq!(numbers::<u8>(&file, "u8s"), [1, 2, 3]);
        assert_eq!(numbers::<i64>(&file, "i64s"), [-1, i64::MAX]);
        assert_eq!(numbers::<bool>(&file, "bools"), [true, false]);
        let floats = numbers::<f32>(&file, "f32s");
        assert!(floats[0].is_nan() && floats[1].to_bits() == (-0.0_f32).to_bits() && floats[2] == 1.5);
        let nested = file.get("nested").unwrap();
        assert_eq!(nested.to_string(), "[[\"a\", \"\"], [1, -1]]");
        let long = file.get("u8s").unwrap().as_array().unwrap();
        assert!(long.elements::<i8>().is_none() && long.strings().is_none());
        assert_eq!(file.get("strs").unwrap().to_string(), "[\"\", \"b\", \"cc\", \"ddd\", ... 100 in all]");
        assert_eq!(file.tensor("other").map(|info| info.ty().name()), Some("IQ2_XXS"));
        assert_eq!(file.tensor("f").map(|info| (info.row_len(), info.rows())), Some((2, 3)));
        assert_eq!(roundtrip::rewrite(&file), bytes);
        roundtrip::check(&file, &bytes);
    }
}

fn numbers<T: Element>(file: &GgufFile, key: &str) -> Vec<T> {
    let elements = file.get(key).and_then(|value| value.as_array()?.elements::<T>()).expect("an array");
    let listed: Vec<T> = elements.collect();
    assert_eq!((elements.len(), elements.get(listed.len()).is_none()), (listed.len(), true));
    (0..listed.len()).map(|i| elements.get(i).expect("an element")).collect()
}

#[test]
fn gaps_and_any_order_of_tensors_are_read() {
    let first = TensorEntry::new("late", &[8], 0, [1; 32]).offset(64);
    let second = TensorEntry::new("early", &[8], 0, [2; 32]).offset(0);
    let bytes = GgufWriter::new().tensor_entry(first).tensor_entry(second).append([3; 32]).finish();
    let file = GgufFile::parse("gaps", bytes.clone()).unwrap();
    let data = |name: &str| file.tensor_data(file.tensor(name).unwrap()).unwrap().to_vec();
    assert_eq!(data("early"), [1; 32]);
    assert_eq!(data("late"), [3; 32]);
    roundtrip::check(&file, &bytes);
}

#[test]
fn every_known_type_is_listed() {
    for kind in TensorType::all() {
        let (row, size) = (2 * kind.block_len() as u64, 6 * kind.block_bytes());
        let entry = TensorEntry::new("t", &[row, 3], kind.id(), vec![0; size]);
        let file = GgufFile::parse("types", GgufWriter::new().tensor_entry(entry).finish()).unwrap();
        let info = file.tensor("t").unwrap();
        assert_eq!((info.ty(), info.byte_len()), (kind, size));
    }
}

#[test]
fn every_shorter_file_is_refused() {
    let bytes = sample(3).finish();
    let last = GgufFile::parse("whole", bytes.clone()).unwrap().tensor("f").unwrap().file_range();
    for len in 0..last.end {
        let error = GgufFile::parse("short", bytes[..len].to_vec()).map(drop).unwrap_err();
        let message = error.to_string();
        assert!(len < 4 || message.contains("truncated"), "{len} of {} bytes: {message}", bytes.len());
    }
    GgufFile::parse("without padding", bytes[..last.end].to_vec()).unwrap();
}

#[test]
fn a_partly_downloaded_file_names_the_first_tensor_that_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.gguf");
    let data = vec![0.5; 4096];
    let mut writer = GgufWriter::new().kv_str("general.architecture", "llama");
    for i in 0..10 {
        writer = writer.tensor_f32(&format!("blk.{i}.w"), &[64, 64], &data);
    }
    let bytes = writer.finish();
    for (percent, tensor) in [(99, "blk.9.w"), (70, "blk.6.w")] {
        let len = bytes.len() * percent / 100;
        std::fs::write(&path, &bytes[..len]).unwrap();
        for mode in [LoadMode::Map, LoadMode::Read] {
            let message = GgufSet::open(&path, mode).map(drop).unwrap_err().to_string();
            let end = format!("does not fit the file of {len} bytes");
            assert!(message.contains("truncated") && message.ends_with(&end), "{message}");
            assert!(message.contains(&format!("tensor {tensor} of 16384 bytes")), "{message}");
        }
    }
}

/// The bytes of shard `no` (from 0) of `count`, with two tensors, and metadata in the first.
fn shard(no: u16, count: u16) -> GgufWriter {
    let mut writer = GgufWriter::new();
    if no == 0 {
        writer = writer.kv_str("general.architecture", "llama").kv_u32("llama.block_count", u32::from(count));
    }
    let value = f32::from(no);
    writer
        .split(no, count, 2 * i32::from(count))
        .tensor_f32(&format!("blk.{no}.a"), &[4], &[value; 4])
        .tensor_f32(&format!("blk.{no}.b"), &[4], &[value + 0.5; 4])
}

/// A folder with the shards of a model, and their paths.
fn shards(count: u16) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |no| format!("model-{:05}-of-{count:05}.gguf", no + 1);
    let paths: Vec<PathBuf> = (0..count).map(|no| folder.path().join(name(no))).collect();
    for (no, path) in (0..count).zip(&paths) {
        std::fs::write(path, shard(no, count).finish()).expect("a written file");
    }
    (folder, paths)
}

fn refusal(path: &Path) -> String {
    let error: GgufError = GgufSet::open(path, LoadMode::Map).map(drop).expect_err("a refusal");
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn any_shard_opens_the_model() {
    let (_folder, paths) = shards(3);
    for path in &paths {
        for mode in [LoadMode::Map, LoadMode::Read] {
            let set = GgufSet::open(path, mode).unwrap();
            assert_eq!((set.files().len(), set.tensors().len(), set.layer_count().unwrap()), (3, 6, 3));
            for no in 0..3_u16 {
                let info = set.expect_tensor(&format!("blk.{no}.b")).unwrap();
                assert_eq!(info.file_index(), usize::from(no));
                let expected = (f32::from(no) + 0.5).to_le_bytes().repeat(4);
                assert_eq!(set.tensor_data(info).unwrap()[..], expected);
            }
        }
    }
}

#[test]
fn missing_shards_are_listed() {
    let (_folder, paths) = shards(3);
    std::fs::remove_file(&paths[2]).unwrap();
    let message = refusal(&paths[1]);
    assert!(
        message.ends_with("this is shard 2 of 3; missing next to it: model-00003-of-00003.gguf"),
        "{message}"
    );
    let (_folder, paths) = shards(20);
    paths[1..].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let message = refusal(&paths[0]);
    assert!(
        message.contains("model-00002-of-00020.gguf, ") && message.ends_with(" and 11 more"),
        "{message}"
    );
}

#[test]
fn shards_joined_or_renamed_are_refused() {
    let (folder, paths) = shards(3);
    let joined = folder.path().join("joined.gguf");
    let bytes: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    std::fs::write(&joined, bytes).unwrap();
    assert!(refusal(&joined).contains("another GGUF header follows the last tensor at byte"));

    let renamed = folder.path().join("model.gguf");
    std::fs::copy(&paths[1], &renamed).unwrap();
    assert!(refusal(&renamed).contains("shard 2 of 3, but its name does not end in -00002-of-00003.gguf"));

    let file = GgufFile::open(&paths[1], LoadMode::Map).unwrap();
    assert!(GgufSet::from_file(file).map(drop).unwrap_err().to_string().contains("shard 2 of 3"));
}

#[test]
fn a_whole_file_may_have_the_name_of_a_shard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x-00001-of-00003.gguf");
    for writer in [GgufWriter::new(), GgufWriter::new().split(0, 1, 1)] {
        std::fs::write(&path, writer.tensor_f32("t", &[1], &[1.0]).finish()).unwrap();
        assert_eq!(GgufSet::open(&path, LoadMode::Map).unwrap().tensors().len(), 1);
    }
}

#[test]
fn shards_that_do_not_fit_together_are_refused() {
    let plain = GgufWriter::new().tensor_f32("t", &[1], &[1.0]);
    let cases = [
        (2, shard(2, 4), "split.count: expected 3, found 4"),
        (2, shard(1, 3), "split.no: expected 2, found 1"),
        (2, plain, "expected shard 3 of 3, found a file that is not split"),
        (2, shard(2, 3).tensor_f32("blk.0.a", &[1], &[0.0]), "tensor blk.0.a is also in "),
        (2, shard(2, 3).tensor_f32("more", &[1], &[0.0]), "split.tensors.count: expected 7, found 6"),
        (2, shard(2, 3).cut(40), "truncated"),
        (0, GgufWriter::new().kv_u16("split.count", 3), "metadata key split.no is missing"),
        (0, GgufWriter::new().split(3, 3, 1), "split.no: expected less than split.count"),
        (0, GgufWriter::new().kv_u32("split.count", u32::MAX).kv_u16("split.no", 0), "at most 65535"),
        (0, GgufWriter::new().kv_str("split.count", "3"), "split.count: expected an integer that fits u32"),
        (0, GgufWriter::new().kv_i32("split.count", -3), "found i32 -3"),
    ];
    for (no, writer, says) in cases {
        let (_folder, paths) = shards(3);
        std::fs::write(&paths[no], writer.finish()).unwrap();
        let message = refusal(&paths[0]);
        assert!(message.contains(says), "wanted {says:?}: {message}");
    }
}
