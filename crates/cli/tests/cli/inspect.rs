//! What `cera inspect` tells about the fixtures.

use std::path::Path;

use cera_quant::Format;
use cera_quant::acts::ActFormat;
use cera_testkit::gguf::{TensorEntry, string, ty};
use cera_testkit::toy::{Shape, Toy};
use serde_json::Value;

use crate::program::{Folder, Run, cera, fixture, json, run};

fn report(path: &Path, tier: &str) -> Value {
    json(cera().arg("inspect").arg(path).env("CERA_CPU_TIER", tier))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The tiers that can run here.
fn usable_tiers() -> Vec<String> {
    let report = json(cera().arg("tiers"));
    let usable = list(&report["tiers"]).iter().filter(|tier| tier["available"] == true);
    usable.map(|tier| text(&tier["label"]).to_owned()).collect()
}

/// The fixtures, by path: one per weight format, and one with plain floats only.
fn models() -> Vec<String> {
    let formats = Format::ALL.into_iter().filter(|&format| format != Format::F32);
    let mut models: Vec<String> = formats.map(|format| format!("quant/model-{format}.gguf")).collect();
    models.push("arch/mistral/model.gguf".to_owned());
    models
}

/// Whether a tensor of these fixtures is multiplied by activations.
fn is_matrix(name: &str) -> bool {
    !name.contains("norm") && name != "rope_freqs.weight"
}

/// The kernel for a format, without its tier and its register tile.
fn serves(op: &str, format: Format) -> String {
    format!("-{op}-{}x{}-", format.label().to_lowercase(), ActFormat::of(format).label())
}

#[test]
fn every_matrix_names_the_kernels_that_it_takes_on_every_tier() {
    for tier in usable_tiers() {
        let table = json(cera().arg("tiers").env("CERA_CPU_TIER", &tier));
        for model in models() {
            let report = report(&fixture(&model), &tier);
            assert_eq!((&report["tier"], &report["no_kernels"]), (&Value::from(tier.as_str()), &Value::Null));
            for tensor in list(&report["tensors"]) {
                let (name, ty) = (text(&tensor["name"]), text(&tensor["type"]));
                // An untied embedding is only looked up.
                let looked_up = name == "token_embd.weight" && model.contains("mistral");
                assert_eq!(tensor["embedding"], name == "token_embd.weight");
                if !is_matrix(name) || looked_up {
                    assert!(tensor["prefill"].is_null() && tensor["decode"].is_null(), "{model}: {tensor}");
                    continue;
                }
                let format = Format::from_label(ty).expect("a format");
                for (op, kernel) in [("gemm", &tensor["prefill"]), ("gemv", &tensor["decode"])] {
                    assert!(text(kernel).contains(&serves(op, format)), "{model} on {tier}: {tensor}");
                    assert!(
                        list(&table["kernels"]).contains(kernel),
                        "{kernel} is not in the table of {tier}"
                    );
                }
            }
        }
    }
}

/// The whole choice for the scalar tier, in full.
#[test]
fn the_kernels_of_the_scalar_tier() {
    let golden = [
        ("F16", "scalar-gemm-f16xf32-16x8 scalar-gemv-f16xf32-16x1"),
        ("BF16", "scalar-gemm-bf16xbf16-16x8 scalar-gemv-bf16xbf16-16x1"),
        ("Q4_0", "scalar-gemm-q4_0xq8x32-16x8 scalar-gemv-q4_0xq8x32-16x1"),
        ("Q4_1", "scalar-gemm-q4_1xq8x32-16x8 scalar-gemv-q4_1xq8x32-16x1"),
        ("Q5_0", "scalar-gemm-q5_0xq8x32-16x8 scalar-gemv-q5_0xq8x32-16x1"),
        ("Q5_1", "scalar-gemm-q5_1xq8x32-16x8 scalar-gemv-q5_1xq8x32-16x1"),
        ("Q8_0", "scalar-gemm-q8_0xq8x32-16x8 scalar-gemv-q8_0xq8x32-16x1"),
        ("Q2_K", "scalar-gemm-q2_kxq8x256-16x8 scalar-gemv-q2_kxq8x256-16x1"),
        ("Q3_K", "scalar-gemm-q3_kxq8x256-16x8 scalar-gemv-q3_kxq8x256-16x1"),
        ("Q4_K", "scalar-gemm-q4_kxq8x256-16x8 scalar-gemv-q4_kxq8x256-16x1"),
        ("Q5_K", "scalar-gemm-q5_kxq8x256-16x8 scalar-gemv-q5_kxq8x256-16x1"),
        ("Q6_K", "scalar-gemm-q6_kxq8x256-16x8 scalar-gemv-q6_kxq8x256-16x1"),
        ("IQ4_NL", "scalar-gemm-iq4_nlxq8x32-16x8 scalar-gemv-iq4_nlxq8x32-16x1"),
        ("IQ4_XS", "scalar-gemm-iq4_xsxq8x256-16x8 scalar-gemv-iq4_xsxq8x256-16x1"),
        ("MXFP4", "scalar-gemm-mxfp4xq8x32-16x8 scalar-gemv-mxfp4xq8x32-16x1"),
    ];
    for (format, kernels) in golden {
        let report = report(&fixture(&format!("quant/model-{format}.gguf")), "scalar");
        let tensor =
            list(&report["tensors"]).iter().find(|tensor| tensor["name"] == "blk.0.ffn_up.weight").unwrap();
        assert_eq!(format!("{} {}", text(&tensor["prefill"]), text(&tensor["decode"])), kernels, "{format}");
    }
}

#[test]
fn bytes_and_shares_of_types_add_up() {
    for model in models() {
        let path = fixture(&model);
        let report = report(&path, "scalar");
        let number = |value: &Value| value.as_u64().unwrap();
        let mut total = 0;
        let mut share = 0.0;
        for row in list(&report["types"]) {
            let of_type = || list(&report["tensors"]).iter().filter(|tensor| tensor["type"] == row["type"]);
            assert_eq!(number(&row["tensors"]), of_type().count() as u64, "{model}: {row}");
            let bytes: u64 = of_type().map(|tensor| number(&tensor["bytes"])).sum();
            assert_eq!(number(&row["bytes"]), bytes, "{model}: {row}");
            total += bytes;
            share += row["share"].as_f64().unwrap();
        }
        assert_eq!(
            total,
            list(&report["tensors"]).iter().map(|tensor| number(&tensor["bytes"])).sum::<u64>()
        );
        assert!((share - 1.0).abs() < 1e-12 && total < std::fs::metadata(&path).unwrap().len(), "{model}");
        for tensor in list(&report["tensors"]) {
            let format = Format::from_label(text(&tensor["type"])).unwrap();
            let elements: u64 = list(&tensor["dims"]).iter().map(number).product();
            let bytes = elements / format.block_len() as u64 * format.block_bytes() as u64;
            assert_eq!(number(&tensor["bytes"]), bytes, "{model}: {tensor}");
        }
    }
}

#[test]
fn metadata_is_shown_with_its_types() {
    let path = fixture("arch/llama/model.gguf");
    let report = report(&path, "scalar");
    let value = |key: &str| list(&report["metadata"]).iter().find(|entry| entry["key"] == key).unwrap();
    assert_eq!((&report["version"], &report["file"]), (&3.into(), &path.to_str().unwrap().into()));
    assert_eq!(
        (&value("llama.block_count")["type"], &value("llama.block_count")["value"]),
        (&"u32".into(), &4.into())
    );
    assert_eq!(value("general.architecture")["value"], "llama");
    let tokens = value("tokenizer.ggml.tokens");
    assert_eq!((&tokens["type"], list(&tokens["value"]).len()), (&"string[384]".into(), 4));
}

#[test]
fn the_text_has_a_line_for_everything() {
    let path = fixture("quant/model-Q4_K.gguf");
    let text_report = Run::of(cera().arg("inspect").arg(&path).env("CERA_CPU_TIER", "scalar")).success();
    let report = report(&path, "scalar");
    for entry in list(&report["metadata"]) {
        assert!(text_report.contains(text(&entry["key"])), "{entry}");
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text_report.lines().map(words).collect();
    let has = |line: &str| assert!(lines.iter().any(|have| have == line), "{line}:\n{text_report}");
    has("blk.0.ffn_up.weight Q4_K 256x512 73728 scalar-gemm-q4_kxq8x256-16x8 scalar-gemv-q4_kxq8x256-16x1");
    has("blk.0.ffn_norm.weight F32 256 1024 - -");
    assert!(!text_report.contains("no kernels stated"));
    for row in list(&report["types"]) {
        let (ty, tensors, bytes) = (text(&row["type"]), &row["tensors"], &row["bytes"]);
        assert!(
            lines.iter().any(|have| have.starts_with(&format!("{ty} {tensors} tensors {bytes} bytes "))),
            "{row}"
        );
    }
    let untied = run(&[&"inspect", &fixture("arch/mistral/model.gguf")]).success();
    let embedding = untied.lines().find(|line| line.starts_with("token_embd.weight")).unwrap();
    assert!(words(embedding).ends_with(" row lookup row lookup"), "{embedding}");
}

/// Codes that a terminal obeys: with ESC, with the one-character CSI, to turn the direction of text, to end a line.
const HOSTILE: &str = "x\u{1b}[2J\u{9b}31m\u{202e}y\u{2067}\u{200f}\u{85}\u{2028}\r\nz";

#[test]
fn names_from_the_file_reach_no_terminal_as_they_are() {
    let folder = Folder::new();
    let mut toy = Toy::new(Shape::SMALL, |_| Format::F32);
    toy.set(&format!("key.{HOSTILE}"), ty::STRING, string(HOSTILE));
    toy.tensors.push(TensorEntry::new(format!("tensor.{HOSTILE}"), &[1], 0, [0; 4]));
    let path = folder.write(&format!("{HOSTILE}.gguf"), toy.finish());
    let mut inspect = cera();
    let report = Run::of(inspect.arg("inspect").arg(&path)).success();
    let in_json = Run::of(inspect.arg("--json")).success();
    let refusal = run(&[&"logits", &"-m", &path, &"--tokens", &"1", &"-o", &folder.path("out")]).failure();
    let missing = run(&[&"inspect", &folder.path(HOSTILE)]).failure();
    for said in [&report, &in_json, &refusal, &missing] {
        let obeyed = |c: char| {
            let u = u32::from(c);
            u < 32 && c != '\n' || (0x7f..0xa0).contains(&u) || (0x200e..0x2070).contains(&u)
        };
        assert!(!said.contains(obeyed), "{said:?}");
    }
    assert!(report.lines().any(|line| line.starts_with("tensor.x")), "{report}");
    assert_eq!(report.lines().filter(|line| line.starts_with('z')).count(), 0, "{report}");
    let json: Value = serde_json::from_str(&in_json).unwrap();
    let entry = list(&json["metadata"]).iter().find(|entry| text(&entry["key"]).starts_with("key.")).unwrap();
    assert_eq!((text(&entry["key"]), text(&entry["value"])), (format!("key.{HOSTILE}").as_str(), HOSTILE));
    assert!(list(&json["tensors"]).iter().any(|tensor| tensor["name"] == format!("tensor.{HOSTILE}")));
}
