//! Files that are hostile, cut short, or in pieces.

use std::path::{Path, PathBuf};

use cera_quant::Format;
use cera_testkit::gguf::{array, ty};
use cera_testkit::hostile;
use cera_testkit::toy::{Shape, Toy};

use crate::program::{Folder, fixture, logits, logits_failure, run, try_logits};

/// The messages of `inspect` and `logits`, which must both fail, and must blame the file in the same words.
fn refusal(path: &Path) -> Result<String, String> {
    let fault = |run| format!("{run:?}");
    let inspect = run(&[&"inspect", &path]).check_failure().map_err(fault)?;
    let Err(logits) = try_logits(path, &[1], &[]) else { return Err("logits went well".to_owned()) };
    let logits = logits.check_failure().map_err(fault)?;
    if inspect != logits {
        return Err(format!("{inspect:?} is not {logits:?}"));
    }
    if !inspect.starts_with(&path.display().to_string()) {
        return Err(format!("{inspect:?} does not name the file"));
    }
    Ok(inspect)
}

#[test]
fn every_hostile_header_is_refused_by_every_command() {
    let folder = Folder::new();
    let cases = hostile::cases();
    assert!(cases.len() >= 40 && cases.len() == hostile::headers().len());
    let mut faults = Vec::new();
    for case in &cases {
        assert!(case.bytes.len() < 200, "{}", case.name);
        let path = folder.write("hostile.gguf", &case.bytes);
        match refusal(&path) {
            Ok(message) if message.contains(case.says) => {}
            Ok(other) | Err(other) => faults.push(format!("{}: {other}", case.name)),
        }
    }
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

#[test]
fn arrays_nested_without_end_are_refused() {
    let folder = Folder::new();
    let mut deep: Vec<u8> = (0..10_000).flat_map(|_| array(ty::ARRAY, 1, [])).collect();
    deep.extend(array(ty::U8, 1, [0]));
    let mut toy = Toy::new(Shape::SMALL, |_| Format::F32);
    toy.set("deep", ty::ARRAY, deep);
    let message = refusal(&folder.write("deep.gguf", toy.finish())).unwrap();
    assert!(message.ends_with("metadata key deep: arrays nested deeper than 4"), "{message}");
}

#[test]
fn a_partly_downloaded_file_names_the_tensor_and_the_bytes() {
    let folder = Folder::new();
    let bytes = std::fs::read(fixture("arch/llama/model.gguf")).unwrap();
    for (percent, tensor) in
        [(99, "blk.3.attn_v.weight of 8192 bytes"), (70, "blk.2.ffn_up.weight of 24576 bytes")]
    {
        let len = bytes.len() * percent / 100;
        let message = refusal(&folder.write("part.gguf", &bytes[..len])).unwrap();
        let end = format!("does not fit the file of {len} bytes");
        assert!(message.contains("truncated") && message.ends_with(&end), "{message}");
        assert!(message.contains(tensor), "{percent} %: {message}");
    }
    for (len, says) in [
        (1000, "39 tensors do not fit the 976 bytes left"),
        (
            5000,
            "384 i32 elements in the value of metadata key tokenizer.ggml.token_type do not fit the 122 bytes left",
        ),
        (8500, "the entry of tensor blk.0.attn_k.weight at byte 8498 needs 4 bytes, 2 are left"),
    ] {
        let message = refusal(&folder.write("part.gguf", &bytes[..len])).unwrap();
        assert!(message.contains("truncated") && message.ends_with(says), "{message}");
    }
}

fn toy() -> Toy {
    Toy::new(Shape::SMALL, |_| Format::Q8_0)
}

/// A folder with the toy model in three shards, and their paths.
fn three_shards() -> (Folder, Vec<PathBuf>) {
    let folder = Folder::new();
    let shards = toy().shards(3).into_iter().enumerate();
    let paths =
        shards.map(|(no, bytes)| folder.write(&format!("toy-{:05}-of-00003.gguf", no + 1), bytes)).collect();
    (folder, paths)
}

#[test]
fn any_shard_runs_the_model() {
    let (folder, paths) = three_shards();
    let tokens = [3, 1, 4, 1, 5];
    let whole = logits(&folder.write("whole.gguf", toy().finish()), &tokens, &[]);
    let listed =
        |path: &Path| run(&[&"inspect", &path]).success().lines().filter(|l| l.contains(".weight")).count();
    for path in &paths {
        assert_eq!(logits(path, &tokens, &[]), whole);
        assert_eq!(listed(path), toy().tensors.len());
    }
    // The name of a shard does not make one.
    let whole_by_another_name = folder.write("x-00001-of-00003.gguf", toy().finish());
    assert_eq!(logits(&whole_by_another_name, &tokens, &[]), whole);
}

#[test]
fn shards_that_are_missing_joined_renamed_or_foreign_are_refused() {
    let (_folder, paths) = three_shards();
    std::fs::remove_file(&paths[2]).unwrap();
    for (no, path) in (1..).zip(&paths[..2]) {
        let message = refusal(path).unwrap();
        let end = format!("this is shard {no} of 3; missing next to it: toy-00003-of-00003.gguf");
        assert!(message.ends_with(&end), "{message}");
    }

    let (folder, paths) = three_shards();
    let all: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    let message = refusal(&folder.write("joined.gguf", all)).unwrap();
    assert!(message.contains("files must not be joined by concatenation"), "{message}");

    let renamed = folder.write("second.gguf", std::fs::read(&paths[1]).unwrap());
    let message = refusal(&renamed).unwrap();
    assert!(message.contains("its name does not end in -00002-of-00003.gguf"), "{message}");

    std::fs::write(&paths[2], &toy().shards(4)[2]).unwrap();
    let message = logits_failure(&paths[0], &[1], &[]);
    assert!(message.contains("toy-00003-of-00003.gguf: split.count: expected 3, found 4"), "{message}");
}
