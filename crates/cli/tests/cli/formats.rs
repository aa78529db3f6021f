//! Models of mixed formats, and weights at the edges of the float formats.

use std::path::PathBuf;

use cera_quant::Format;
use cera_testkit::measure::Distance;
use cera_testkit::toy::{Shape, Toy};

use crate::program::{Folder, Logits, cera, json, logits, logits_failure};

const TOKENS: [u32; 12] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];

/// Writes a model and gives its logits.
fn run(folder: &Folder, toy: &Toy) -> (PathBuf, Logits) {
    let path = folder.write("toy.gguf", toy.finish());
    let logits = logits(&path, &TOKENS, &["--kv", "f32"]);
    (path, logits)
}

#[test]
fn formats_can_be_mixed_where_rows_fit_only_blocks_of_32() {
    let shape = Shape { hidden: 576, feed_forward: 512, heads: 9, kv_heads: 3, ..Shape::SMALL };
    let toy = Toy::new(shape, |name| match name.rsplit('.').nth(1) {
        Some("attn_q" | "ffn_gate") => Format::Q5_0,
        Some("attn_k" | "ffn_up") => Format::Q5_1,
        Some("attn_output") => Format::IQ4_NL,
        // Rows of 512.
        Some("ffn_down") => Format::Q4_K,
        _ => Format::Q8_0,
    });
    let folder = Folder::new();
    let (path, whole) = run(&folder, &toy);
    for more in [&["--chunk", "1"][..], &["--chunk", "5"], &["--no-repack"]] {
        assert_eq!(logits(&path, &TOKENS, &[&["--kv", "f32"], more].concat()), whole, "{more:?}");
    }
    let report = json(cera().arg("inspect").arg(&path));
    let types: Vec<&str> =
        report["types"].as_array().unwrap().iter().map(|row| row["type"].as_str().unwrap()).collect();
    for ty in ["Q5_0", "Q5_1", "IQ4_NL", "Q4_K", "Q8_0", "F32"] {
        assert!(types.contains(&ty), "{types:?}");
    }
    // Random blocks amplify the rounding of activations, at some positions a lot.
    let (_, exact) = run(&folder, &toy.expanded());
    let row = |i| Distance::new(whole.row(i), exact.row(i), whole.vocabulary).cos;
    let mut cosines: Vec<f64> = (0..whole.rows).map(row).collect();
    cosines.sort_by(f64::total_cmp);
    assert!(cosines[whole.rows / 2] >= 0.98 && cosines[0] >= 0.9, "{cosines:?}");
}

/// A model of one float format in which some weights are subnormal: of the format, and of f32.
fn with_subnormals(format: Format) -> Toy {
    let mut toy = Toy::new(Shape::SMALL, |_| format);
    for tensor in
        toy.tensors.iter_mut().filter(|tensor| tensor.type_id == format.gguf_id() && tensor.dims.len() == 2)
    {
        let size = format.block_bytes();
        for (i, weight) in tensor.data.chunks_exact_mut(size).enumerate().filter(|(i, _)| i % 5 == 0) {
            // No exponent bits; the sign and the fraction stay.
            weight[size - 1] &= 0x80;
            if format != Format::F16 {
                weight[size - 2] &= 0x7f;
            } else {
                weight[size - 1] |= (i % 4) as u8;
            }
        }
    }
    toy
}

#[test]
fn half_precision_weights_are_exact_subnormals_included() {
    let toy = with_subnormals(Format::F16);
    let folder = Folder::new();
    let (_, half) = run(&folder, &toy);
    assert_eq!(run(&folder, &toy.expanded()).1, half);
}

/// The embedding is read out of packed strips if it is the head too, and out of the file otherwise.
#[test]
fn tiny_bf16_embeddings_do_not_depend_on_where_they_are_read() {
    let mut toy =
        Toy::new(Shape::SMALL, |name| if name.contains("embd") { Format::BF16 } else { Format::F32 });
    toy.remove("output.weight");
    let embedding = &mut toy.tensor_mut("token_embd.weight").data;
    for (i, weight) in embedding[..20 * 64].chunks_exact_mut(2).enumerate() {
        // Half of the tokens have subnormals only, or magnitudes between 2^-64 and 2^-60.
        let bits = [1 + i as u16 % 127, (63 + (i as u16 % 4)) << 7][i / 320];
        weight.copy_from_slice(&bits.to_le_bytes());
    }
    let folder = Folder::new();
    let path = folder.write("toy.gguf", toy.finish());
    let tokens = [0, 5, 12, 19, 33];
    let (packed, plain) = (logits(&path, &tokens, &[]), logits(&path, &tokens, &["--no-repack"]));
    assert_eq!(packed, plain);
}

#[test]
fn bf16_weights_round_the_activations_only() {
    let toy = with_subnormals(Format::BF16);
    let folder = Folder::new();
    let (_, bf16) = run(&folder, &toy);
    let (_, exact) = run(&folder, &toy.expanded());
    let distance = Distance::new(&bf16.data, &exact.data, bf16.vocabulary);
    assert!(distance.rel <= 0.02 && distance.cos >= 0.9995 && distance.max_abs > 0.0, "{distance:?}");
}

/// Sets element `element` of row `row` of the head to a value of its format.
fn spoil_head(toy: &mut Toy, format: Format, (row, element): (usize, usize), value: f32) {
    let size = format.block_bytes();
    let mut bytes = vec![0; size];
    match format {
        Format::F32 => bytes.copy_from_slice(&value.to_le_bytes()),
        // The values used have no more bits than bf16.
        Format::BF16 => bytes.copy_from_slice(&value.to_le_bytes()[2..]),
        _ => bytes.copy_from_slice(&half_bits(value).to_le_bytes()),
    }
    let hidden = toy.tensor_mut("output.weight").dims[0] as usize;
    toy.tensor_mut("output.weight").data[(row * hidden + element) * size..][..size].copy_from_slice(&bytes);
}

/// The half-precision bits of an infinity or NaN.
fn half_bits(value: f32) -> u16 {
    match value {
        f32::INFINITY => 0x7c00,
        f32::NEG_INFINITY => 0xfc00,
        _ => 0x7e00,
    }
}

#[test]
fn logits_that_are_not_finite_are_an_error_that_names_them() {
    let folder = Folder::new();
    for format in [Format::F32, Format::F16, Format::BF16] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut toy = Toy::new(Shape::SMALL, |_| format);
            spoil_head(&mut toy, format, (17, 3), value);
            let path = folder.write("toy.gguf", toy.finish());
            let found = |message: &str, position: usize| {
                let expected = format!("the logit of token 17 at position {position} is not finite");
                assert_eq!(message, expected, "{format} {value}");
            };
            found(&logits_failure(&path, &TOKENS, &[]), 0);
            found(&logits_failure(&path, &TOKENS, &["--chunk", "5"]), 0);
            found(&logits_failure(&path, &TOKENS, &["--last"]), TOKENS.len() - 1);
        }
    }
}

#[test]
fn a_weight_that_is_not_a_number_spoils_the_logits_from_within() {
    let folder = Folder::new();
    for (tensor, format) in [
        ("blk.0.attn_v.weight", Format::F16),
        ("blk.1.ffn_up.weight", Format::BF16),
        ("token_embd.weight", Format::F32),
    ] {
        let mut toy = Toy::new(Shape::SMALL, |_| format);
        let data = &mut toy.tensor_mut(tensor).data;
        data.fill(0xff);
        let path = folder.write("toy.gguf", toy.finish());
        let message = logits_failure(&path, &TOKENS, &[]);
        assert_eq!(message, "the logit of token 0 at position 0 is not finite", "{tensor}");
    }
}
