//! How much memory loading takes at most, in bytes that the loading thread allocates.
#![allow(clippy::unwrap_used)]

use std::io::Write;

use cera_core::{KernelTable, Runtime};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelOptions};
use cera_quant::Format;
use cera_testkit::alloc::{Counting, measure};
use cera_testkit::toy::{Shape, Toy};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Many tensors, of which the largest is small beside all; less than a large page, which the allocator would not see.
const SHAPE: Shape =
    Shape { layers: 10, hidden: 128, feed_forward: 256, heads: 4, kv_heads: 2, vocabulary: 200, context: 64 };

/// What is not weights: the graph, the plan, names, threads.
const REST: usize = 192 << 10;

#[test]
fn loading_holds_one_copy_of_the_weights_and_one_tensor() {
    let toy = Toy::new(SHAPE, |_| Format::Q8_0);
    let (largest, all) = toy
        .tensors
        .iter()
        .fold((0, 0), |(largest, all), tensor| (tensor.data.len().max(largest), all + tensor.data.len()));
    assert!(16 * largest < all && 4 * REST < all && all < 2 << 20, "{largest} of {all}");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&toy.finish()).unwrap();
    let runtime = Runtime::new(KernelTable::scalar());
    // In a process' first load libraries allocate what they keep.
    let load = |load, repack| {
        let options = ModelOptions { load, repack, ..ModelOptions::default() };
        measure(|| Model::load(file.path(), runtime.clone(), options).unwrap())
    };
    drop(load(LoadMode::Map, true));
    let mut faults = Vec::new();
    for (mode, repack) in
        [LoadMode::Map, LoadMode::Read].into_iter().flat_map(|mode| [(mode, true), (mode, false)])
    {
        let (model, usage) = load(mode, repack);
        let packed = model.load_stats().packed_bytes;
        assert!(!repack || (all / 2..all + all / 16).contains(&packed), "{packed} packed of {all}");
        let bound = match (mode, repack) {
            (LoadMode::Map, _) => packed,
            (LoadMode::Read, true) => packed + 2 * largest,
            (LoadMode::Read, false) => all,
        };
        if usage.peak_bytes > bound + REST {
            faults.push(format!(
                "{mode:?}, repack {repack}: {} bytes, at most {bound} + {REST}",
                usage.peak_bytes
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
