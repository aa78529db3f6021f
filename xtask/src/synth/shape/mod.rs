//! The shapes that models can be made in, and the tensors of a model of that shape.

mod keys;
mod layers;
mod table;

use self::table::SHAPES;
use super::gguf::Header;

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    name: &'static str,
    family: Family,
    pub(super) hidden: u32,
    /// Rows of the feed-forward network of a layer without experts.
    ffn: u32,
    pub(super) layers: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    pub(super) vocabulary: u32,
    context: u32,
    rope_base: f32,
    /// What norms add to the mean of the squares.
    eps: f32,
    /// Whether the head is the embedding.
    pub(super) tied: bool,
}

/// The architecture, with the sizes that only it has.
#[derive(Clone, Copy, Debug)]
enum Family {
    Llama,
    Qwen3Moe(Experts),
    /// Every fourth layer is of attention, the others are linear.
    Qwen3Next(Experts, Linear),
    Lfm2Moe(Experts),
    DeepSeek2(Experts, Latent),
}

/// The experts of a layer.
#[derive(Clone, Copy, Debug)]
struct Experts {
    count: u32,
    /// How many of them a token is given to.
    used: u32,
    /// Rows of one of them.
    ffn: u32,
    /// Rows of the expert that every token is given to; 0 if there is none.
    shared_ffn: u32,
    /// Layers at the start that have none.
    dense_layers: u32,
}

/// Layers of the gated delta rule.
#[derive(Clone, Copy, Debug)]
struct Linear {
    key_heads: u32,
    value_heads: u32,
    /// Elements of a head, of keys and of values alike.
    head_dim: u32,
    /// Elements of a head of attention that are rotated.
    rotated: u32,
}

/// Attention over compressed keys and values; [`Shape::head_dim`] is the part of a head that is not rotated, which values
/// have too.
#[derive(Clone, Copy, Debug)]
struct Latent {
    /// Elements of the compressed keys and values.
    rank: u32,
    /// Elements of a head that are rotated.
    rotated: u32,
}

/// Every so many layers of Qwen3-Next one is of attention.
const ATTENTION_INTERVAL: u32 = 4;
/// Layers of attention of LFM2-8B-A1B; the others are short convolutions.
const LFM2_ATTENTION: [u32; 6] = [2, 6, 10, 14, 18, 21];

/// The names of the shapes.
pub(super) fn names() -> [&'static str; SHAPES.len()] {
    SHAPES.map(|shape| shape.name)
}

/// What a tensor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The embedding, or a head of its own.
    Vocabulary,
    /// What stays in F32: vectors, and the matrices that route or convolve.
    Unquantized,
    /// `attn_v` of a layer, or `attn_qkv`.
    AttnV,
    /// `attn_output` of a layer.
    AttnOutput,
    /// `ffn_down` of a layer, also of experts.
    FfnDown,
    /// Any other matrix of a layer.
    Other,
}

/// A tensor to write.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) role: Role,
    /// The layer, or the rank among tensors of its role where only some layers have one; 0 outside of layers.
    pub(super) place: u32,
    /// How many such places there are.
    pub(super) places: u32,
    /// The dimensions in GGUF order: elements of a row first.
    pub(super) dims: Vec<u32>,
    /// The mean of the values, zero for all that are not [`Role::Unquantized`].
    pub(super) center: f32,
    /// The standard deviation of the values.
    pub(super) spread: f32,
}

impl Tensor {
    /// A matrix, or several: inputs, rows and, if there are several, their number.
    fn matrix(name: impl Into<String>, role: Role, dims: &[u32]) -> Tensor {
        Tensor::new(name.into(), role, dims, 0.0, 1.0 / (dims[0] as f32).sqrt())
    }

    fn norm(name: impl Into<String>, len: u32) -> Tensor {
        Tensor::vector(name, len, 1.0, 0.02)
    }

    fn vector(name: impl Into<String>, len: u32, center: f32, spread: f32) -> Tensor {
        Tensor::new(name.into(), Role::Unquantized, &[len], center, spread)
    }

    fn new(name: String, role: Role, dims: &[u32], center: f32, spread: f32) -> Tensor {
        Tensor { name, role, place: 0, places: 1, dims: dims.to_vec(), center, spread }
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

    /// Appends the metadata of the architecture.
    pub(super) fn describe(&self, header: &mut Header) {
        keys::describe(self, header);
    }

    /// The tensors in the order of the file.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let vocabulary = |name: &str| Tensor::matrix(name, Role::Vocabulary, &[self.hidden, self.vocabulary]);
        let mut tensors = vec![vocabulary("token_embd.weight")];
        for layer in 0..self.layers {
            let of_layer = layers::tensors(self, layer).into_iter();
            tensors.extend(of_layer.map(|tensor| Tensor { place: layer, places: self.layers, ..tensor }));
        }
        let norm = if matches!(self.family, Family::Lfm2Moe(_)) { "token_embd_norm" } else { "output_norm" };
        tensors.push(Tensor::norm(format!("{norm}.weight"), self.hidden));
        if !self.tied {
            tensors.push(vocabulary("output.weight"));
        }
        let values = || |tensor: &&mut Tensor| tensor.role == Role::AttnV;
        let places = tensors.iter_mut().filter(values()).count() as u32;
        for (place, tensor) in (0..).zip(tensors.iter_mut().filter(values())) {
            (tensor.place, tensor.places) = (place, places);
        }
        tensors
    }

    /// How many experts of a layer a token is given to.
    pub(super) fn experts_used(&self) -> u32 {
        match self.family {
            Family::Llama => 0,
            Family::Qwen3Moe(experts)
            | Family::Qwen3Next(experts, _)
            | Family::Lfm2Moe(experts)
            | Family::DeepSeek2(experts, _) => experts.used,
        }
    }

    /// Whether the layer is of attention over keys and values.
    fn attends(&self, layer: u32) -> bool {
        match self.family {
            Family::Llama | Family::Qwen3Moe(_) | Family::DeepSeek2(..) => true,
            Family::Qwen3Next(..) => layer % ATTENTION_INTERVAL == ATTENTION_INTERVAL - 1,
            Family::Lfm2Moe(_) => LFM2_ATTENTION.contains(&layer),
        }
    }
}
