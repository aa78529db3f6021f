//! The sizes of the shapes, those of published models. Where layers are cut so that a file fits a small machine, it says so.

use super::{Experts, Family, Latent, Linear, Shape};

/// The base of rotary angles of Llama 3, SmolLM and Qwen3.
const LLAMA3_BASE: f32 = 500_000.0;
const SMOLLM_BASE: f32 = 100_000.0;
const QWEN3_BASE: f32 = 1_000_000.0;

/// What the small llamas have in common.
const LLAMA: Shape = Shape {
    name: "",
    family: Family::Llama,
    hidden: 0,
    ffn: 0,
    layers: 0,
    heads: 0,
    kv_heads: 0,
    head_dim: 64,
    vocabulary: 49_152,
    context: 8192,
    rope_base: LLAMA3_BASE,
    eps: 1e-5,
    tied: true,
};

pub(super) const SHAPES: [Shape; 9] = [
    // Every row fills a whole number of 256-wide blocks.
    Shape {
        name: "tiny",
        hidden: 256,
        ffn: 512,
        layers: 2,
        heads: 8,
        kv_heads: 2,
        head_dim: 32,
        vocabulary: 512,
        context: 2048,
        rope_base: SMOLLM_BASE,
        ..LLAMA
    },
    Shape {
        name: "smollm2-135m",
        hidden: 576,
        ffn: 1536,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        rope_base: SMOLLM_BASE,
        ..LLAMA
    },
    Shape { name: "llama-1b", hidden: 2048, ffn: 8192, layers: 16, heads: 32, kv_heads: 8, ..LLAMA },
    Shape {
        name: "llama-3b",
        hidden: 3072,
        ffn: 8192,
        layers: 28,
        heads: 24,
        kv_heads: 8,
        head_dim: 128,
        ..LLAMA
    },
    Shape {
        name: "llama-8b",
        hidden: 4096,
        ffn: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        tied: false,
        ..LLAMA
    },
    // 13 of 48 layers.
    Shape {
        name: "qwen3-30b-a3b",
        family: Family::Qwen3Moe(Experts { count: 128, used: 8, ffn: 768, shared_ffn: 0, dense_layers: 0 }),
        hidden: 2048,
        ffn: 6144,
        layers: 13,
        heads: 32,
        kv_heads: 4,
        head_dim: 128,
        vocabulary: 151_936,
        context: 40_960,
        rope_base: QWEN3_BASE,
        eps: 1e-6,
        tied: false,
    },
    // 4 of 48 layers, so that one of them is of attention.
    Shape {
        name: "qwen3-next-80b-a3b",
        family: Family::Qwen3Next(
            Experts { count: 512, used: 10, ffn: 512, shared_ffn: 512, dense_layers: 0 },
            Linear { key_heads: 16, value_heads: 32, head_dim: 128, rotated: 64 },
        ),
        hidden: 2048,
        ffn: 5120,
        layers: 4,
        heads: 16,
        kv_heads: 2,
        head_dim: 256,
        vocabulary: 151_936,
        context: 262_144,
        rope_base: 10_000_000.0,
        eps: 1e-6,
        tied: false,
    },
    Shape {
        name: "lfm2-8b-a1b",
        family: Family::Lfm2Moe(Experts { count: 32, used: 4, ffn: 1792, shared_ffn: 0, dense_layers: 2 }),
        hidden: 2048,
        ffn: 7168,
        layers: 24,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        vocabulary: 65_536,
        context: 128_000,
        rope_base: QWEN3_BASE,
        eps: 1e-5,
        tied: true,
    },
    // 10 of 27 layers.
    Shape {
        name: "deepseek-v2-lite",
        family: Family::DeepSeek2(
            Experts { count: 64, used: 6, ffn: 1408, shared_ffn: 2 * 1408, dense_layers: 1 },
            Latent { rank: 512, rotated: 64 },
        ),
        hidden: 2048,
        ffn: 10_944,
        layers: 10,
        heads: 16,
        kv_heads: 1,
        head_dim: 128,
        vocabulary: 102_400,
        context: 163_840,
        rope_base: 10_000.0,
        eps: 1e-6,
        tied: false,
    },
];
