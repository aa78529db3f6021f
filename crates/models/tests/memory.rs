//! One copy of the weights, as the system counts pages.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use cera_core::{KernelTable, Runtime, SeqStep, Want};
use cera_models::gguf::LoadMode;
use cera_models::{LoadStats, Model, ModelOptions};
use cera_quant::Format;
use cera_quant::kv::KvType;
use cera_testkit::toy::{Shape, Toy};

/// 4 MB of embedding, 4 MB of head and some 20 MB of other matrices, in Q4_0.
const SHAPE: Shape = Shape {
    layers: 4,
    hidden: 1024,
    feed_forward: 2048,
    heads: 16,
    kv_heads: 16,
    vocabulary: 7001,
    context: 64,
};

/// Bytes of memory in which the mapped file is resident.
fn mapped(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut ours, mut kilobytes) = (false, 0);
    for line in maps.lines() {
        match line.split_once(": ") {
            Some(("Rss", size)) if ours => {
                kilobytes += size.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
            }
            Some(_) if line.starts_with(|c: char| c.is_ascii_uppercase()) => {}
            _ => ours = line.ends_with(path.to_str().unwrap()),
        }
    }
    kilobytes << 10
}

/// Bytes of anonymous memory of this process.
fn anonymous() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Nanoseconds that every thread of this process has run.
fn running() -> BTreeMap<OsString, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    let ran = |task: &std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    tasks.filter_map(|task| Some((task.file_name(), ran(&task)?))).collect()
}

/// Where the weights are.
#[derive(Debug)]
struct Resident {
    stats: LoadStats,
    /// Of the file, after loading and after a step.
    mapped: [usize; 2],
    /// Of the file at most, each time a matrix had been packed, with the anonymous memory of the process.
    peak: usize,
    /// What loading added to the anonymous memory of the process.
    anonymous: usize,
    /// Threads that did a fair part of the packing.
    packers: usize,
}

fn load(path: &Path, runtime: &Arc<Runtime>, options: ModelOptions) -> Resident {
    let before = anonymous();
    let (mut peak, mut ran) = (0, Vec::new());
    let model = Model::load_with(path, runtime.clone(), options, &mut |_| {
        ran.push(running());
        peak = peak.max(mapped(path) + anonymous().saturating_sub(before));
    })
    .unwrap();
    let (after, anonymous) = (mapped(path), anonymous().saturating_sub(before));
    let mut state = model.new_state(KvType::F16);
    let steps = &mut [SeqStep { state: &mut state, tokens: &[1, 2, 7000], want: Want::Last }];
    model.step(steps).unwrap();
    let shares: Vec<u64> = match &ran[..] {
        [first, .., last] => last.iter().map(|(id, ns)| ns - first.get(id).copied().unwrap_or(0)).collect(),
        _ => Vec::new(),
    };
    let packers = shares.iter().filter(|&&ns| ns * 8 > shares.iter().sum()).count();
    Resident { stats: model.load_stats(), mapped: [after, mapped(path)], peak, anonymous, packers }
}

/// One test, so that no other adds to the memory.
#[test]
fn packed_weights_replace_the_pages_of_the_file() {
    if cera_testkit::emulation::is_on() {
        // The system counts the emulator's memory.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toy.gguf");
    let toy = Toy::new(SHAPE, |_| Format::Q4_0);
    std::fs::write(&path, toy.finish()).unwrap();
    let size = |name: &str| toy.tensors.iter().find(|t| t.name == name.as_bytes()).unwrap().data.len();
    let (embedding, largest) = (size("token_embd.weight"), size("output.weight"));
    let file = std::fs::metadata(&path).unwrap().len() as usize;
    drop(toy);
    let runtime = Runtime::with_width(KernelTable::scalar(), 2).unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();

    for mode in [LoadMode::Map, LoadMode::Read] {
        let packed = load(&path, &runtime, ModelOptions { load: mode, ..ModelOptions::default() });
        assert_eq!((packed.stats.file_bytes, packed.stats.plain_bytes), (file, embedding));
        // One of the workers may be the thread that loads, or wait for the others.
        assert!(packed.packers >= 2 || processors == 1, "{packed:?}");
        assert!(packed.stats.packed_bytes >= file - embedding - (1 << 20), "{packed:?}");
        // The system may map whole huge pages around what is read, so that the file is never quite gone.
        for mapped in packed.mapped {
            assert!((packed.anonymous + mapped) * 100 <= file * 115, "{file}: {packed:?}");
        }
        assert!(packed.peak * 100 <= file * 115 + largest * 100, "{file}: {packed:?}");
    }

    let plain = load(&path, &runtime, ModelOptions { repack: false, ..ModelOptions::default() });
    assert_eq!((plain.stats.packed_bytes, plain.peak), (0, 0));
    assert!((file - (1 << 20)..file).contains(&plain.stats.plain_bytes), "{plain:?}");
    assert!(plain.anonymous * 10 <= file && plain.mapped[1] >= file - embedding, "{file}: {plain:?}");

    let read = load(
        &path,
        &runtime,
        ModelOptions { load: LoadMode::Read, repack: false, ..ModelOptions::default() },
    );
    assert!(read.mapped == [0, 0] && read.anonymous * 100 <= file * 115, "{file}: {read:?}");
}
