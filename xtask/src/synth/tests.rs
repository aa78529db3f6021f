use cera_quant::blocks::dequantize_row;

use super::*;

fn formats(shape: &str, mix: &str) -> Vec<(String, Format)> {
    let shape = Shape::named(shape).expect("shape");
    let mix = mix::parse(mix).expect("type");
    shape.tensors().into_iter().map(|t| (t.name.clone(), mix.format_of(&t, &shape, false))).collect()
}

fn format_of(shape: &str, mix: &str, name: &str) -> Format {
    formats(shape, mix).into_iter().find(|(tensor, _)| tensor == name).expect("tensor").1
}

#[test]
fn values_of_every_format_have_the_wanted_spread() {
    let spread = 1.0 / 2048_f32.sqrt();
    for format in Format::ALL {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut bytes = vec![0; format.row_bytes(1 << 16).expect("whole blocks")];
        blocks::fill(format, spread, &mut rng, &mut bytes).expect("whole blocks");
        let mut values = vec![0.0; 1 << 16];
        dequantize_row(format, &bytes, &mut values).expect("row");
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let rms = (values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / n).sqrt();
        assert!((rms / f64::from(spread) - 1.0).abs() < 0.1, "{format}: {rms}");
        assert!(mean.abs() < 0.25 * f64::from(spread), "{format}: {mean}");
    }
}

#[test]
fn norms_are_near_one() {
    let mut bytes = vec![0; 4 * 1024];
    blocks::fill_around(1.0, 0.02, &mut ChaCha8Rng::seed_from_u64(1), &mut bytes);
    let values = bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value));
    assert!(values.into_iter().all(|value| (value - 1.0).abs() < 0.05));
}

#[test]
fn the_seed_decides_the_bytes_and_the_size_is_told() {
    let dir = tempfile::tempdir().expect("tempdir");
    let recipe =
        Recipe::new(&Shape::named("tiny").expect("shape"), mix::parse("Q4_K_M").expect("type"), false);
    let make = |name: &str, seed| {
        let path = dir.path().join(name);
        recipe.make(seed, &path).expect("written");
        let content = fs::read(path).expect("file");
        assert_eq!(content.len() as u64, recipe.bytes());
        content
    };
    let first = make("a", 3);
    assert_eq!(first, make("b", 3));
    assert_ne!(first, make("c", 4));
}

#[test]
fn a_model_is_made_once_and_again_if_it_is_another() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = provide("tiny", "Q8_0", dir.path()).expect("made");
    let mut content = fs::read(&path).expect("file");
    let (at, last) = (content.len() - 1, content[content.len() - 1]);
    content[at] = !last;
    fs::write(&path, &content).expect("written");
    provide("tiny", "Q8_0", dir.path()).expect("taken");
    assert_eq!(fs::read(&path).expect("file")[at], !last, "other weights of the same shape are taken");
    content[30] ^= 1;
    for spoilt in [&content[..at], &content[..]] {
        fs::write(&path, spoilt).expect("written");
        provide("tiny", "Q8_0", dir.path()).expect("made");
        assert_eq!(fs::read(&path).expect("file")[at], last);
    }
    assert!(provide("tinier", "Q8_0", dir.path()).is_err() && provide("tiny", "Q8", dir.path()).is_err());
}

#[test]
fn mixes_follow_the_quantizer_of_llama_cpp() {
    let value = |layer| format_of("llama-1b", "Q4_K_M", &format!("blk.{layer}.attn_v.weight"));
    let finer: Vec<u32> = (0..16).filter(|&layer| value(layer) == Format::Q6_K).collect();
    assert_eq!(finer, [0, 1, 4, 7, 10, 13, 14, 15]);
    assert_eq!(format_of("llama-1b", "Q4_K_M", "blk.2.attn_q.weight"), Format::Q4_K);
    assert_eq!(format_of("llama-1b", "Q4_K_M", "token_embd.weight"), Format::Q6_K);
    assert_eq!(format_of("llama-8b", "Q4_K_M", "token_embd.weight"), Format::Q4_K);
    assert_eq!(format_of("llama-8b", "Q4_K_M", "output.weight"), Format::Q6_K);
    assert_eq!(format_of("llama-1b", "Q8_0", "token_embd.weight"), Format::Q8_0);
    assert_eq!(format_of("llama-1b", "Q4_K_M", "output_norm.weight"), Format::F32);
}

#[test]
fn rows_that_fill_no_block_get_a_narrower_format() {
    assert_eq!(format_of("smollm2-135m", "Q4_K_M", "blk.12.attn_q.weight"), Format::Q5_0);
    assert_eq!(format_of("smollm2-135m", "Q4_K_M", "blk.12.ffn_down.weight"), Format::Q4_K);
    assert_eq!(format_of("smollm2-135m", "Q4_K_M", "token_embd.weight"), Format::Q8_0);
}

#[test]
fn tokens_are_distinct_and_merges_use_known_parts() {
    let vocab = vocab::build(49_152);
    let mut known: std::collections::HashSet<&str> = vocab.tokens[..259].iter().map(String::as_str).collect();
    assert_eq!((vocab.tokens.len(), known.len()), (49_152, 259));
    for (token, merge) in vocab.tokens[259..].iter().zip(&vocab.merges) {
        let (left, right) = merge.split_once(' ').expect("two parts");
        assert!(known.contains(left) && known.contains(right), "{merge}");
        assert_eq!(format!("{left}{right}"), *token);
        assert!(known.insert(token), "{token}");
    }
}

#[test]
fn mixtures_follow_the_quantizer_of_llama_cpp() {
    // Routing, convolutions and vectors stay as they are; rows that fill no block of 256 get another format.
    for (shape, name, format) in [
        ("qwen3-30b-a3b", "blk.0.ffn_gate_inp.weight", Format::F32),
        ("qwen3-30b-a3b", "blk.3.ffn_down_exps.weight", Format::Q6_K),
        ("qwen3-30b-a3b", "blk.3.ffn_up_exps.weight", Format::Q4_K),
        ("qwen3-next-80b-a3b", "blk.0.ssm_conv1d.weight", Format::F32),
        ("qwen3-next-80b-a3b", "blk.0.ffn_gate_inp_shexp.weight", Format::F32),
        ("qwen3-next-80b-a3b", "blk.0.ssm_ba.weight", Format::Q4_K),
        ("qwen3-next-80b-a3b", "blk.2.attn_qkv.weight", Format::Q6_K),
        ("qwen3-next-80b-a3b", "blk.0.attn_qkv.weight", Format::Q4_K),
        ("lfm2-8b-a1b", "blk.0.shortconv.conv.weight", Format::F32),
        ("lfm2-8b-a1b", "blk.2.exp_probs_b.bias", Format::F32),
        ("deepseek-v2-lite", "blk.1.attn_k_b.weight", Format::Q5_0),
        ("deepseek-v2-lite", "blk.1.attn_v_b.weight", Format::Q4_K),
        ("deepseek-v2-lite", "blk.3.ffn_down_exps.weight", Format::Q8_0),
        ("deepseek-v2-lite", "blk.2.ffn_down_exps.weight", Format::Q5_0),
    ] {
        assert_eq!(format_of(shape, "Q4_K_M", name), format, "{shape}: {name}");
    }
    // Of the six layers that have values, the third and the last get the finer format.
    let finer: Vec<String> = formats("lfm2-8b-a1b", "Q4_K_M")
        .into_iter()
        .filter_map(|(name, format)| (name.contains("attn_v") && format == Format::Q6_K).then_some(name))
        .collect();
    assert_eq!(finer, ["blk.10.attn_v.weight", "blk.21.attn_v.weight"]);
}

#[test]
fn a_token_of_a_mixture_is_multiplied_by_few_of_its_weights() {
    // Weights of attention, routing, and eight experts in 13 layers, and the head.
    let attention = (2 * 2048 * 4096 + 2 * 2048 * 512) * 18 / 32;
    let experts = 8 * 3 * 768 * 2048 * 18 / 32;
    let head = 151_936 * 2048 / 256 * 210;
    let expected = 13 * (attention + 4 * 128 * 2048 + experts) + head;
    assert_eq!(active_bytes("qwen3-30b-a3b", "Q4_0").expect("a shape"), expected);
    assert!(active_bytes("tiny", "Q4_0").expect("a shape") > 0 && active_bytes("tinier", "Q4_0").is_err());
}

#[test]
fn mixtures_have_the_weights_of_the_models_that_they_are_named_for() {
    for (name, layers, billions) in [
        ("qwen3-30b-a3b", 48, 30.5),
        ("qwen3-next-80b-a3b", 48, 79.7),
        ("lfm2-8b-a1b", 24, 8.3),
        ("deepseek-v2-lite", 27, 15.7),
    ] {
        let mut shape = Shape::named(name).expect("shape");
        shape.layers = layers;
        let weights: u64 = shape.tensors().iter().map(Tensor::elements).sum();
        assert!((weights as f64 / 1e9 - billions).abs() < 0.1, "{name}: {weights}");
    }
}
