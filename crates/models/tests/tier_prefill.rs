//! A prompt is multiplied as a whole, and a token alone by the kernels for one.
#![allow(clippy::unwrap_used)]

mod common;

use cera_core::{KernelOp, SeqStep, Want};
use cera_models::{Model, ModelOptions};
use cera_quant::Format;
use cera_quant::kv::KvType;
use cera_testkit::toy::{Shape, Toy};
use common::TestRuntime;

/// Calls of the kernels for several tokens and of those for one, since the runtime was made.
fn total(model: &Model) -> [u64; 2] {
    let mut calls = [0, 0];
    for hits in model.program().runtime().hits() {
        match hits.kernel.op {
            KernelOp::Gemm(_) => calls[0] += hits.total(),
            KernelOp::Gemv(_) => calls[1] += hits.total(),
            _ => {}
        }
    }
    calls
}

/// The same in a step of `tokens` tokens. No hits are reset: the runtime reports them when it is dropped.
fn calls(model: &Model, tokens: usize, want: Want) -> [u64; 2] {
    let mut state = model.new_state(KvType::F16);
    let tokens: Vec<u32> = (0..tokens as u32).map(|i| i % 40).collect();
    let before = total(model);
    model.step(&mut [SeqStep { state: &mut state, tokens: &tokens, want }]).unwrap();
    let after = total(model);
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn the_calls_of_a_prompt_do_not_grow_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toy.gguf");
    for format in Format::ALL {
        let wide = Shape { hidden: 256, feed_forward: 512, ..Shape::SMALL };
        std::fs::write(&path, Toy::new(wide, |_| format).finish()).unwrap();
        let runtime = TestRuntime::with_threads(2);
        let model = Model::load(&path, runtime.share(), ModelOptions::default()).unwrap();
        // Few tokens are fewer than a column tile, and many are more.
        let [few, one] = calls(&model, 2, Want::All);
        assert!(few > 0 && one == 0, "{format}");
        assert_eq!(calls(&model, 1, Want::All), [0, few], "{format}");
        let [many, one] = calls(&model, 64, Want::All);
        assert!(many > 0 && one == 0, "{format}");
        assert_eq!(calls(&model, 40, Want::All), [many, 0], "{format}");
        // The head alone has one token to compute, and nothing has any where no logits are wanted.
        let [without_head, one] = calls(&model, 64, Want::Last);
        assert!(0 < one && one < few && without_head < many, "{format}");
        assert_eq!(calls(&model, 64, Want::None), [without_head, 0], "{format}");
    }
}
