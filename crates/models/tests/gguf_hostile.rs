//! Files that must be refused: with one clear line, and without taking memory.

use cera_models::gguf::{GgufFile, GgufSet, LoadMode};
use cera_testkit::alloc::{Counting, measure};
use cera_testkit::gguf::{GgufWriter, array, ty};
use cera_testkit::hostile;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bound on what a refused file of under 200 bytes may make the reader allocate.
const MOST_BYTES: usize = 64 << 10;
const MOST_ALLOCATIONS: usize = 100;

#[test]
fn every_hostile_file_is_refused_with_one_line_and_little_memory() {
    let cases = hostile::cases();
    assert!(cases.len() >= 40);
    let mut failed = Vec::new();
    for case in &cases {
        assert!(case.bytes.len() < 200, "{} has {} bytes", case.name, case.bytes.len());
        let bytes = case.bytes.clone();
        let (result, usage) = measure(|| GgufFile::parse("hostile.gguf", bytes));
        let message = match result {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        let clear = message.starts_with("hostile.gguf: ") && !message.contains('\n') && message.len() < 400;
        let cheap = usage.peak_bytes <= MOST_BYTES && usage.allocations <= MOST_ALLOCATIONS;
        if !clear || !cheap || !message.contains(case.says) {
            failed.push(format!("{}: {message} (wanted {:?}; {usage:?})", case.name, case.says));
        }
    }
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn names_of_hostile_files_are_distinct() {
    let mut names: Vec<&str> = hostile::headers().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

#[test]
fn opening_a_hostile_file_names_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.gguf");
    for case in hostile::cases() {
        std::fs::write(&path, &case.bytes).unwrap();
        for mode in [LoadMode::Map, LoadMode::Read] {
            let (result, usage) = measure(|| GgufSet::open(&path, mode));
            let message = result.map(drop).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{}: ", path.display())), "{}: {message}", case.name);
            assert!(message.contains(case.says), "{} ({mode:?}): {message}", case.name);
            assert!(usage.peak_bytes <= MOST_BYTES, "{} ({mode:?}): {usage:?}", case.name);
        }
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [LoadMode::Map, LoadMode::Read] {
        let message = GgufFile::open(folder.path(), mode).map(drop).unwrap_err().to_string();
        assert!(message.ends_with(": expected a regular file"), "{message}");
        let message =
            GgufFile::open(folder.path().join("none.gguf"), mode).map(drop).unwrap_err().to_string();
        assert!(message.contains("none.gguf: "), "{message}");
    }
}

#[test]
fn the_alignment_of_zero_takes_57_bytes() {
    let bytes = GgufWriter::new().kv_u32("general.alignment", 0).finish();
    assert_eq!(bytes.len(), 57);
    assert!(GgufFile::parse("a", bytes).is_err());
}

#[test]
fn arrays_nested_10000_deep_are_refused_at_once() {
    let mut value = Vec::new();
    for _ in 0..10_000 {
        value.extend(array(ty::ARRAY, 1, []));
    }
    value.extend(array(ty::U8, 1, [0]));
    let bytes = GgufWriter::new().kv_raw("deep", ty::ARRAY, value).finish();
    let (result, usage) = measure(|| GgufFile::parse("deep.gguf", bytes));
    assert!(result.unwrap_err().to_string().contains("nested deeper than 4"));
    assert!(usage.peak_bytes <= MOST_BYTES, "{usage:?}");
}

/// Files of some size that fill every table of the reader as densely as the format allows.
#[test]
fn dense_files_cost_a_small_multiple_of_their_bytes() {
    const MANY: u64 = 1 << 16;
    let mut keys = GgufWriter::new();
    let mut tensors = GgufWriter::new().padding(8).kv_u32("general.alignment", 8);
    for i in 0..MANY {
        keys = keys.kv_u8(&format!("{i:x}"), 0);
        tensors = tensors.tensor_f32(&format!("{i:x}"), &[2], &[0.0; 2]);
    }
    let strings = GgufWriter::new().kv_array("a", ty::STRING, 1 << 20, vec![0; 8 << 20]);
    let arrays: Vec<u8> = (0..1 << 20).flat_map(|_| array(ty::U8, 0, [])).collect();
    let arrays = GgufWriter::new().kv_array("a", ty::ARRAY, 1 << 20, arrays);
    for (name, writer) in [("keys", keys), ("tensors", tensors), ("strings", strings), ("arrays", arrays)] {
        let bytes = writer.finish();
        let (result, usage) = measure(|| GgufFile::parse(name, bytes));
        result.unwrap();
        assert!(usage.peak_bytes < 20 << 20, "{name}: {usage:?}");
    }
}

#[test]
fn a_key_or_tensor_too_many_is_refused_before_the_tables_are_made() {
    let body = vec![0; 40 << 16];
    let keys = GgufWriter::new().claim_keys((1 << 16) + 1).append(&body).finish();
    let tensors = GgufWriter::new().claim_tensors((1 << 16) + 1).append(&body).finish();
    for (what, bytes) in [("metadata keys", keys), ("tensors", tensors)] {
        let (result, usage) = measure(|| GgufFile::parse("many.gguf", bytes));
        let message = result.unwrap_err().to_string();
        assert_eq!(message, format!("many.gguf: number of {what}: 65537 is over the limit of 65536"));
        assert!(usage.peak_bytes <= MOST_BYTES, "{usage:?}");
    }
}

#[test]
fn control_characters_do_not_reach_the_message() {
    let bytes = GgufWriter::new().kv_u8("a\n\u{1b}[31mb", 0).kv_u8("a\n\u{1b}[31mb", 0).finish();
    let message = GgufFile::parse("x\ny.gguf", bytes).map(drop).unwrap_err().to_string();
    assert_eq!(message, "x\\ny.gguf: metadata key a\\n\\u{1b}[31mb is given twice");
    let long = "k".repeat(60_000);
    let bytes = GgufWriter::new().kv_u8(&long, 0).kv_u8(&long, 0).finish();
    assert!(GgufFile::parse("a", bytes).map(drop).unwrap_err().to_string().len() < 200);
}

/// Vocabularies are read in bulk: the number of allocations does not depend on the number of tokens.
#[test]
fn a_large_vocabulary_costs_a_fixed_number_of_allocations() {
    let usage = |tokens: usize| {
        let ids: Vec<i32> = (0..tokens as i32).collect();
        let scores: Vec<f32> = ids.iter().map(|&id| -(id as f32)).collect();
        let writer = GgufWriter::new()
            .kv_str("general.architecture", "llama")
            .kv_strs("tokenizer.ggml.tokens", ids.iter().map(|id| format!("token {id}")))
            .kv_f32s("tokenizer.ggml.scores", &scores)
            .kv_i32s("tokenizer.ggml.token_type", &ids)
            .kv_strs("tokenizer.ggml.merges", ids.iter().map(|id| format!("{id} {id}")));
        let bytes = writer.finish();
        let size = bytes.len();
        let (file, usage) = measure(|| GgufFile::parse("vocabulary", bytes).unwrap());
        let ((), reading) = measure(|| {
            let list = |key| file.meta().strings(key).unwrap();
            let (texts, merges) = (list("tokenizer.ggml.tokens"), list("tokenizer.ggml.merges"));
            assert_eq!((texts.len(), merges.len()), (tokens, tokens));
            assert_eq!(texts.iter().map(<[u8]>::len).sum::<usize>() + 8 * tokens, size_of_list(&file));
            let types = file.get("tokenizer.ggml.token_type").unwrap().as_array().unwrap();
            assert!(types.elements::<i32>().unwrap().eq(0..tokens as i32));
        });
        assert_eq!(reading.allocations, 0, "reading arrays allocates");
        let last = format!("token {}", tokens - 1);
        assert_eq!(
            file.meta().strings("tokenizer.ggml.tokens").unwrap().get(tokens - 1),
            Some(last.as_bytes())
        );
        assert!(usage.peak_bytes * 16 < size, "{usage:?} for {size} bytes");
        usage.allocations
    };
    let (few, many) = (usage(1_000), usage(250_000));
    assert_eq!(few, many);
    assert!(many < 32, "{many} allocations");
}

/// The bytes of the token texts in the file.
fn size_of_list(file: &GgufFile) -> usize {
    file.meta()
        .value("tokenizer.ggml.tokens")
        .ok()
        .flatten()
        .and_then(|v| v.as_array())
        .map_or(0, |a| a.bytes().len())
}
