//! A host that computes in a floating-point mode of its own gets the bits that every other one gets.
#![allow(clippy::unwrap_used)]

mod common;

use cera_core::{SeqStep, Want};
use cera_models::{Model, ModelOptions};
use cera_quant::Format;
use cera_quant::kv::KvType;
use cera_testkit::float_mode::HostMode;
use cera_testkit::toy::{Shape, Toy};
use common::TestRuntime;

const TOKENS: [u32; 12] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];

/// A model some of whose weights and logits are subnormal.
fn with_subnormals(format: Format) -> Toy {
    let mut toy = Toy::new(Shape::SMALL, |_| format);
    for name in ["token_embd.weight", "output.weight"] {
        let size = format.block_bytes();
        for weight in toy.tensor_mut(name).data.chunks_exact_mut(size).step_by(3) {
            // No exponent bits; the sign and the fraction stay.
            weight[size - 1] &= 0x80;
            if format == Format::F32 {
                weight[size - 2] &= 0x7f;
            }
        }
    }
    let head = &mut toy.tensor_mut("output.weight").data;
    let row = head.len() / 40;
    // Row 7 has nothing else.
    let tiny: &[u8] = if format == Format::F32 { &[3, 0, 0, 0x80] } else { &[3, 0x80] };
    head[7 * row..8 * row].chunks_exact_mut(tiny.len()).for_each(|weight| weight.copy_from_slice(tiny));
    toy
}

/// The bits of the logits, loaded and computed on this thread.
fn bits(path: &std::path::Path, runtime: &TestRuntime, options: ModelOptions) -> Vec<u32> {
    let model = Model::load(path, runtime.share(), options).unwrap();
    let mut state = model.new_state(KvType::F16);
    let mut bits = Vec::new();
    for tokens in [&TOKENS[..8], &TOKENS[8..9], &TOKENS[9..]] {
        let logits = model.step(&mut [SeqStep { state: &mut state, tokens, want: Want::All }]).unwrap();
        bits.extend(logits.data().iter().map(|x| x.to_bits()));
    }
    bits
}

#[test]
fn the_mode_of_the_host_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toy.gguf");
    for format in [Format::F32, Format::F16, Format::Q8_0] {
        let toy =
            if format == Format::Q8_0 { Toy::new(Shape::SMALL, |_| format) } else { with_subnormals(format) };
        std::fs::write(&path, toy.finish()).unwrap();
        for threads in [1, 3] {
            for repack in [true, false] {
                let runtime = TestRuntime::with_threads(threads);
                let options = ModelOptions { repack, ..ModelOptions::default() };
                let expected = bits(&path, &runtime, options);
                let Some(mode) = HostMode::enter() else { return };
                let got = bits(&path, &runtime, options);
                let holds = mode.holds();
                drop(mode);
                assert!(got == expected && holds, "{format}, {threads} threads, repack {repack}");
                let subnormal = |bits: &&u32| f32::from_bits(**bits).is_subnormal();
                assert!(
                    format != Format::F32 || expected.iter().any(|bits| subnormal(&bits)),
                    "nothing to flush"
                );
            }
        }
    }
}
