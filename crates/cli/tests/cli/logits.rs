//! What `cera logits` writes, against the library.

use std::path::Path;
use std::sync::Arc;

use cera_core::{KernelTable, Runtime, SeqStep, Want};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelOptions, logits_hash};
use cera_quant::kv::KvType;

use crate::program::{Folder, cera, fixture, json, logits, logits_with, run};

const TOKENS: [u32; 9] = [7, 300, 2, 2, 41, 383, 0, 19, 100];

/// The logits of every token, by the library on the scalar tier from a file that is read, not mapped.
fn of_library(path: &Path, kv: KvType) -> Vec<f32> {
    let runtime: Arc<Runtime> = Runtime::new(KernelTable::scalar());
    let options = ModelOptions { load: LoadMode::Read, ..ModelOptions::default() };
    let model = Model::load(path, runtime, options).unwrap();
    let mut state = model.new_state(kv);
    let steps = &mut [SeqStep { state: &mut state, tokens: &TOKENS, want: Want::All }];
    model.step(steps).unwrap().data().to_vec()
}

fn bits(data: &[f32]) -> Vec<u32> {
    data.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn the_file_has_the_logits_of_the_library_however_they_are_computed() {
    for model in
        ["arch/llama/model.gguf", "arch/mistral/model.gguf", "quant/model-Q4_K.gguf", "quant/model-BF16.gguf"]
    {
        let path = fixture(model);
        for (kv, label) in [(KvType::F32, "f32"), (KvType::F16, "f16"), (KvType::Q8_0, "q8_0")] {
            if kv == KvType::Q8_0 && !model.starts_with("quant/") {
                continue;
            }
            let expected = of_library(&path, kv);
            let vocabulary = expected.len() / TOKENS.len();
            let hash = logits_hash(&expected).unwrap();
            for more in [
                &[][..],
                &["--chunk", "1"],
                &["--chunk", "4"],
                &["--no-repack"],
                &["--no-repack", "--chunk", "2"],
            ] {
                let got = logits(&path, &TOKENS, &[&["--kv", label], more].concat());
                assert_eq!(
                    (got.rows, got.vocabulary),
                    (TOKENS.len(), vocabulary),
                    "{model} {label} {more:?}"
                );
                assert!(bits(&got.data) == bits(&expected) && got.sha256 == hash, "{model} {label} {more:?}");
            }
            let last = logits(&path, &TOKENS, &["--kv", label, "--last"]);
            assert_eq!((last.rows, last.vocabulary), (1, vocabulary));
            assert_eq!(bits(&last.data), bits(&expected[expected.len() - vocabulary..]), "{model} {label}");
            assert_eq!(last.sha256, logits_hash(&last.data).unwrap());
        }
    }
}

#[test]
fn a_cache_of_blocks_is_refused_for_heads_of_24() {
    let path = fixture("arch/mistral/model.gguf");
    let folder = Folder::new();
    let output = folder.path("out");
    let error =
        run(&[&"logits", &"-m", &path, &"--tokens", &"1,2", &"-o", &output, &"--kv", &"q8_0"]).failure();
    assert!(error.contains("a q8_0 cache needs heads of whole blocks, not of 24 and 24"), "{error}");
}

#[test]
fn the_cache_is_of_half_precision_by_default() {
    let path = fixture("arch/llama/model.gguf");
    let [default, f16, f32] =
        [&[][..], &["--kv", "f16"], &["--kv", "f32"]].map(|more| logits(&path, &TOKENS, more));
    assert_eq!(default, f16);
    assert_ne!(f16.sha256, f32.sha256);
}

/// Every tier and every number of threads that can be had here gives the same file.
#[test]
fn settings_do_not_change_the_bits() {
    let path = fixture("quant/model-Q6_K.gguf");
    let expected = logits(&path, &TOKENS, &[]);
    let report = json(cera().arg("tiers"));
    let tiers = report["tiers"].as_array().unwrap().iter().filter(|tier| tier["available"] == true);
    let settings = tiers.map(|tier| ("CERA_CPU_TIER", tier["label"].as_str().unwrap()));
    for setting in settings.chain([("CERA_THREADS", "1"), ("CERA_THREADS", "3")]) {
        let got = logits_with(&path, &TOKENS, setting);
        assert_eq!(got.sha256, expected.sha256, "{setting:?}");
    }
}
