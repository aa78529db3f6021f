//! The shapes that models can be made in, and the tensors of a llama of that shape.

use super::gguf::Header;

/// The sizes of a llama.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    name: &'static str,
    pub(super) hidden: u32,
    ffn: u32,
    pub(super) layers: u32,
    heads: u32,
    kv_heads: u32,
    pub(super) vocabulary: u32,
    context: u32,
    rope_base: f32,
    /// Whether the head is the embedding.
    pub(super) tied: bool,
}

/// The base of rotary angles of Llama 3 and SmolLM.
const LLAMA3_BASE: f32 = 500_000.0;
const SMOLLM_BASE: f32 = 100_000.0;

const SHAPES: [Shape; 5] = [
    // Every row fills a whole number of 256-wide blocks.
    Shape {
        name: "tiny",
        hidden: 256,
        ffn: 512,
        layers: 2,
        heads: 8,
        kv_heads: 2,
        vocabulary: 512,
        context: 2048,
        rope_base: SMOLLM_BASE,
        tied: true,
    },
    Shape {
        name: "smollm2-135m",
        hidden: 576,
        ffn: 1536,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        vocabulary: 49_152,
        context: 8192,
        rope_base: SMOLLM_BASE,
        tied: true,
    },
    Shape {
        name: "llama-1b",
        hidden: 2048,
        ffn: 8192,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        vocabulary: 49_152,
        context: 8192,
        rope_base: LLAMA3_BASE,
        tied: true,
    },
    Shape {
        name: "llama-3b",
        hidden: 3072,
        ffn: 8192,
        layers: 28,
        heads: 24,
        kv_heads: 8,
        vocabulary: 49_152,
        context: 8192,
        rope_base: LLAMA3_BASE,
        tied: true,
    },
    Shape {
        name: "llama-8b",
        hidden: 4096,
        ffn: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        vocabulary: 49_152,
        context: 8192,
        rope_base: LLAMA3_BASE,
        tied: false,
    },
];

/// The names of the shapes.
pub(super) fn names() -> [&'static str; SHAPES.len()] {
    SHAPES.map(|shape| shape.name)
}

/// What a tensor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The embedding, or a head of its own.
    Vocabulary,
    /// A vector of norm weights.
    Norm,
    /// `attn_v` of a layer.
    AttnV,
    /// `attn_output` of a layer.
    AttnOutput,
    /// `ffn_down` of a layer.
    FfnDown,
    /// Any other matrix of a layer.
    Other,
}

/// A tensor to write.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) role: Role,
    /// The layer; 0 for tensors outside of layers.
    pub(super) layer: u32,
    /// The dimensions in GGUF order: elements of a row first.
    pub(super) dims: Vec<u32>,
    /// The standard deviation of the values.
    pub(super) spread: f32,
}

impl Tensor {
    fn matrix(name: String, role: Role, layer: u32, [inputs, rows]: [u32; 2]) -> Tensor {
        Tensor { name, role, layer, dims: vec![inputs, rows], spread: 1.0 / (inputs as f32).sqrt() }
    }

    fn norm(name: String, layer: u32, len: u32) -> Tensor {
        Tensor { name, role: Role::Norm, layer, dims: vec![len], spread: 0.02 }
    }

    /// The number of elements.
    pub(super) fn elements(&self) -> u64 {
        self.dims.iter().map(|&dim| u64::from(dim)).product()
    }
}

impl Shape {
    /// The shape with this name.
    pub(super) fn named(name: &str) -> Option<Shape> {
        SHAPES.into_iter().find(|shape| shape.name == name)
    }

    fn head_dim(&self) -> u32 {
        self.hidden / self.heads
    }

    /// Appends the metadata of the architecture.
    pub(super) fn describe(&self, header: &mut Header) {
        header.string("general.architecture", "llama");
        header.string("general.name", &format!("random {}", self.name));
        header.u32("llama.context_length", self.context);
        header.u32("llama.embedding_length", self.hidden);
        header.u32("llama.block_count", self.layers);
        header.u32("llama.feed_forward_length", self.ffn);
        header.u32("llama.attention.head_count", self.heads);
        header.u32("llama.attention.head_count_kv", self.kv_heads);
        header.u32("llama.rope.dimension_count", self.head_dim());
        header.f32("llama.rope.freq_base", self.rope_base);
        header.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        header.u32("llama.vocab_size", self.vocabulary);
    }

    /// The tensors in the order of the file.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let vocabulary = |name: &str| {
            Tensor::matrix(name.to_string(), Role::Vocabulary, 0, [self.hidden, self.vocabulary])
        };
        let mut tensors = vec![vocabulary("token_embd.weight")];
        tensors.extend((0..self.layers).flat_map(|layer| self.layer(layer)));
        tensors.push(Tensor::norm("output_norm.weight".into(), 0, self.hidden));
        if !self.tied {
            tensors.push(vocabulary("output.weight"));
        }
        tensors
    }

    fn layer(&self, layer: u32) -> Vec<Tensor> {
        let (hidden, ffn) = (self.hidden, self.ffn);
        let keys = self.kv_heads * self.head_dim();
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let matrix = |part: &str, role, dims| Tensor::matrix(name(part), role, layer, dims);
        vec![
            Tensor::norm(name("attn_norm"), layer, hidden),
            matrix("attn_q", Role::Other, [hidden, hidden]),
            matrix("attn_k", Role::Other, [hidden, keys]),
            matrix("attn_v", Role::AttnV, [hidden, keys]),
            matrix("attn_output", Role::AttnOutput, [hidden, hidden]),
            Tensor::norm(name("ffn_norm"), layer, hidden),
            matrix("ffn_gate", Role::Other, [hidden, ffn]),
            matrix("ffn_up", Role::Other, [hidden, ffn]),
            matrix("ffn_down", Role::FfnDown, [ffn, hidden]),
        ]
    }
}
