//! Toy llama models: of any shape and of any mix of formats, sound until they are edited.

use cera_quant::Format;

use crate::gguf::{GgufWriter, KvEntry, TensorEntry, string, ty};
use crate::rng::Rng;
use crate::weights::{self, Kind};

/// The sizes of a toy model.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Layers.
    pub layers: u32,
    /// Elements of the residual stream.
    pub hidden: u32,
    /// Elements between the two products of the feed-forward network.
    pub feed_forward: u32,
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// The longest context.
    pub context: u32,
}

impl Shape {
    /// Two layers of 32 elements: the smallest whose rows are whole blocks of 32.
    pub const SMALL: Shape =
        Shape { layers: 2, hidden: 32, feed_forward: 64, heads: 4, kv_heads: 2, vocabulary: 40, context: 64 };

    /// Name and dimensions of every matrix, a row's length first.
    fn matrices(&self) -> Vec<(String, [u32; 2])> {
        let kv = self.hidden / self.heads * self.kv_heads;
        let (hidden, wide) = (self.hidden, self.feed_forward);
        let mut all = vec![("token_embd.weight".to_owned(), [hidden, self.vocabulary])];
        for layer in 0..self.layers {
            let of_layer = [
                ("attn_q", [hidden, hidden]),
                ("attn_k", [hidden, kv]),
                ("attn_v", [hidden, kv]),
                ("attn_output", [hidden, hidden]),
                ("ffn_gate", [hidden, wide]),
                ("ffn_up", [hidden, wide]),
                ("ffn_down", [wide, hidden]),
            ];
            all.extend(of_layer.map(|(name, dims)| (format!("blk.{layer}.{name}.weight"), dims)));
        }
        all.push(("output.weight".to_owned(), [hidden, self.vocabulary]));
        all
    }
}

/// The metadata and tensors of a model, to be written or to be spoilt.
#[derive(Debug, Clone)]
pub struct Toy {
    /// The metadata.
    pub keys: Vec<KvEntry>,
    /// The tensors.
    pub tensors: Vec<TensorEntry>,
}

impl Toy {
    /// A model whose matrices have the formats that `format` gives for their names. The weights are random, of one seed.
    ///
    /// # Panics
    /// If the rows of a matrix are no whole number of blocks of its format.
    pub fn new(shape: Shape, format: impl Fn(&str) -> Format) -> Toy {
        let mut toy = Toy { keys: Vec::new(), tensors: Vec::new() };
        toy.set("general.architecture", ty::STRING, string("llama"));
        for (key, value) in [
            ("llama.block_count", shape.layers),
            ("llama.context_length", shape.context),
            ("llama.embedding_length", shape.hidden),
            ("llama.feed_forward_length", shape.feed_forward),
            ("llama.attention.head_count", shape.heads),
            ("llama.attention.head_count_kv", shape.kv_heads),
        ] {
            toy.set_u32(key, value);
        }
        toy.set("llama.attention.layer_norm_rms_epsilon", ty::F32, 1e-5_f32.to_le_bytes());
        let mut rng = Rng::new(u64::from(shape.hidden));
        for (name, dims @ [k, m]) in shape.matrices() {
            let format = format(&name);
            let data = weights::rows(format, (m as usize, k as usize), Kind::Sane, &mut rng);
            toy.tensors.push(TensorEntry::new(name, &dims.map(u64::from), format.gguf_id(), data));
        }
        let norms = (0..shape.layers)
            .flat_map(|layer| ["attn_norm", "ffn_norm"].map(|name| format!("blk.{layer}.{name}.weight")));
        for name in norms.chain(["output_norm.weight".to_owned()]) {
            let data: Vec<u8> =
                (0..shape.hidden).flat_map(|_| (1.0 + 0.1 * rng.unit()).to_le_bytes()).collect();
            let dims = [u64::from(shape.hidden)];
            toy.tensors.push(TensorEntry::new(name, &dims, Format::F32.gguf_id(), data));
        }
        toy
    }

    /// Sets a metadata value, in place of the one of the same key.
    pub fn set(&mut self, key: &str, type_id: u32, value: impl AsRef<[u8]>) {
        self.unset(key);
        self.keys.push(KvEntry::new(key, type_id, value));
    }

    /// Sets an unsigned metadata value.
    pub fn set_u32(&mut self, key: &str, value: u32) {
        self.set(key, ty::U32, value.to_le_bytes());
    }

    /// Leaves out a metadata value.
    pub fn unset(&mut self, key: &str) {
        self.keys.retain(|entry| entry.key != key.as_bytes());
    }

    /// A tensor.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn tensor_mut(&mut self, name: &str) -> &mut TensorEntry {
        match self.tensors.iter_mut().find(|tensor| tensor.name == name.as_bytes()) {
            Some(tensor) => tensor,
            None => panic!("the toy model has no tensor {name}"),
        }
    }

    /// Leaves out a tensor.
    pub fn remove(&mut self, name: &str) {
        self.tensors.retain(|tensor| tensor.name != name.as_bytes());
    }

    /// The same model with every tensor that has a format expanded to `F32`, exactly as the format is defined.
    ///
    /// # Panics
    /// If the data of a tensor does not fit its dimensions and type.
    #[must_use]
    pub fn expanded(&self) -> Toy {
        let mut toy = self.clone();
        for tensor in &mut toy.tensors {
            let Some(format) = Format::from_gguf_id(tensor.type_id) else { continue };
            let mut values = vec![0.0; tensor.dims.iter().product::<u64>() as usize];
            cera_quant::blocks::dequantize_row(format, &tensor.data, &mut values).expect("a sound tensor");
            tensor.type_id = Format::F32.gguf_id();
            tensor.data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        }
        toy
    }

    /// A writer with all of it.
    pub fn writer(&self) -> GgufWriter {
        self.tensors.iter().cloned().fold(self.head(), GgufWriter::tensor_entry)
    }

    /// The bytes of the file.
    pub fn finish(&self) -> Vec<u8> {
        self.writer().finish()
    }

    /// The bytes of the model in `count` shards, the tensors dealt out in turn.
    pub fn shards(&self, count: u16) -> Vec<Vec<u8>> {
        let shard = |no: u16| {
            let head = if no == 0 { self.head() } else { GgufWriter::new() };
            let mine = self.tensors.iter().skip(usize::from(no)).step_by(usize::from(count)).cloned();
            let head = head.split(no, count, self.tensors.len() as i32);
            mine.fold(head, GgufWriter::tensor_entry).finish()
        };
        (0..count).map(shard).collect()
    }

    fn head(&self) -> GgufWriter {
        self.keys.iter().cloned().fold(GgufWriter::new(), GgufWriter::kv_entry)
    }
}
