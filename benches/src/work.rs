//! The kinds of work.

use std::mem::MaybeUninit;

use cera_core::KernelTable;
use cera_quant::Format;
use cera_quant::acts::{ActFormat, ActsRef};
use cera_quant::blocks::dequantize_row;
use cera_quant::kv::{AppendArgs, KvPages, KvShape, KvUnit, PAGE_KEYS};
use cera_quant::ops::{
    Activation, AttentionArgs, AttentionOut, AttentionScratch, GatedArgs, RmsNormArgs, RopeArgs, RopePairs,
    Visible, rope_table,
};
use cera_quant::pack::{self, PackedRef};
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};

use crate::{Work, Written};

/// Bell-shaped values.
fn values(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.normal()).collect()
}

/// Weights as in a file.
fn rows(format: Format, shape: (usize, usize)) -> Vec<u8> {
    weights::rows(format, shape, Kind::Sane, &mut Rng::new(format.gguf_id().into()))
}

/// What was planned to fit.
fn fits<T>(result: Result<T, cera_quant::QuantError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("a bench is wrong: {error}"),
    }
}

/// Weights times activations.
pub(crate) struct Product {
    format: Format,
    /// Weight rows, tokens, elements per row.
    shape: (usize, usize, usize),
    /// The same packed weights, as often as it takes for them to have left the caches when their turn comes again.
    copies: Vec<Vec<u8>>,
    turn: usize,
    acts: Vec<u8>,
    out: Vec<MaybeUninit<f32>>,
}

impl Product {
    pub(crate) fn new(
        table: &KernelTable,
        format: Format,
        (m, n, k): (usize, usize, usize),
        copies: usize,
    ) -> Product {
        let mut packed = vec![0; fits(pack::packed_bytes(format, m, k))];
        fits(pack::pack(format, (m, k), &rows(format, (m, k)), &mut packed));
        let act = ActFormat::of(format);
        let mut acts = vec![0; fits(act.bytes(n, k))];
        fits(table.quantize(act, &values(n * k, 1), k, &mut acts));
        let out = vec![MaybeUninit::uninit(); n * m];
        Product { format, shape: (m, n, k), copies: vec![packed; copies], turn: 0, acts, out }
    }
}

impl Work for Product {
    fn run(&mut self, table: &KernelTable) -> Written<'_> {
        let (m, n, k) = self.shape;
        self.turn = (self.turn + 1) % self.copies.len();
        let w = fits(PackedRef::new(self.format, m, k, &self.copies[self.turn]));
        let x = fits(ActsRef::new(ActFormat::of(self.format), (n, k), table.column_tile(n), &self.acts));
        Written::Floats(&*fits(table.matmul(w, x, &mut self.out)))
    }
}

/// Activations to an activation format.
pub(crate) struct Quantize {
    format: ActFormat,
    x: Vec<f32>,
    k: usize,
    out: Vec<u8>,
}

impl Quantize {
    pub(crate) fn new(format: ActFormat, (n, k): (usize, usize)) -> Quantize {
        Quantize { format, x: values(n * k, 2), k, out: vec![0; fits(format.bytes(n, k))] }
    }
}

impl Work for Quantize {
    fn run(&mut self, table: &KernelTable) -> Written<'_> {
        fits(table.quantize(self.format, &self.x, self.k, &mut self.out));
        Written::Bytes(&self.out)
    }
}

/// The packing of a matrix.
pub(crate) struct Pack {
    format: Format,
    shape: (usize, usize),
    rows: Vec<u8>,
    out: Vec<u8>,
}

impl Pack {
    pub(crate) fn new(format: Format, (m, k): (usize, usize)) -> Pack {
        let out = vec![0; fits(pack::packed_bytes(format, m, k))];
        Pack { format, shape: (m, k), rows: rows(format, (m, k)), out }
    }
}

impl Work for Pack {
    fn run(&mut self, _table: &KernelTable) -> Written<'_> {
        fits(pack::pack(self.format, self.shape, &self.rows, &mut self.out));
        Written::Bytes(&self.out)
    }
}

/// The expansion of rows to f32.
pub(crate) struct Dequantize {
    format: Format,
    rows: Vec<u8>,
    out: Vec<f32>,
}

impl Dequantize {
    pub(crate) fn new(format: Format, (m, k): (usize, usize)) -> Dequantize {
        Dequantize { format, rows: rows(format, (m, k)), out: vec![0.0; m * k] }
    }
}

impl Work for Dequantize {
    fn run(&mut self, _table: &KernelTable) -> Written<'_> {
        fits(dequantize_row(self.format, &self.rows, &mut self.out));
        Written::Floats(&self.out)
    }
}

/// What a cache consists of, with the kernels of a table.
pub(crate) trait Cached: KvUnit + Default {
    fn append(table: &KernelTable, args: &mut AppendArgs<'_, Self>);
    fn attention(table: &KernelTable, args: &mut AttentionArgs<'_, Self>);
}

impl Cached for f32 {
    fn append(table: &KernelTable, args: &mut AppendArgs<'_, f32>) {
        // SAFETY: the bench is one thread and holds no slice of the pages.
        unsafe { table.append_f32(args) };
    }

    fn attention(table: &KernelTable, args: &mut AttentionArgs<'_, f32>) {
        table.attention_f32(args);
    }
}

impl Cached for u16 {
    fn append(table: &KernelTable, args: &mut AppendArgs<'_, u16>) {
        // SAFETY: the bench is one thread and holds no slice of the pages.
        unsafe { table.append_f16(args) };
    }

    fn attention(table: &KernelTable, args: &mut AttentionArgs<'_, u16>) {
        table.attention_f16(args);
    }
}

/// The queries of one token that share a KV head, over a cache of some positions.
pub(crate) struct Attention<T> {
    shape: KvShape,
    pages: Vec<Vec<T>>,
    positions: usize,
    q: Vec<f32>,
    out: Vec<f32>,
    scratch: AttentionScratch,
}

impl<T: Cached> Attention<T> {
    /// Queries and positions; keys and values have `dim` elements.
    pub(crate) fn new(table: &KernelTable, (queries, positions, dim): (usize, usize, usize)) -> Attention<T> {
        let shape = KvShape { heads: 1, k_dim: dim, v_dim: dim };
        let pages = vec![vec![T::default(); T::head_len(shape)]; positions.div_ceil(PAGE_KEYS)];
        let (q, out) = (values(queries * dim, 3), vec![0.0; queries * dim]);
        let mut attention = Attention { shape, pages, positions, q, out, scratch: AttentionScratch::new() };
        let (k, v) = (values(positions * dim, 4), values(positions * dim, 5));
        let pointers = attention.pointers();
        for (position, (k, v)) in k.chunks_exact(dim).zip(v.chunks_exact(dim)).enumerate() {
            // SAFETY: as in `run`; the positions are written one after the other.
            let pages = unsafe { KvPages::from_raw(shape, 0, &pointers) };
            T::append(table, &mut AppendArgs { pages, position, k, v });
        }
        attention
    }

    fn pointers(&mut self) -> Vec<*mut T> {
        self.pages.iter_mut().map(|page| page.as_mut_ptr()).collect()
    }
}

impl<T: Cached> Work for Attention<T> {
    fn run(&mut self, table: &KernelTable) -> Written<'_> {
        let pointers = self.pointers();
        // SAFETY: the pages are vectors of the units of the one head, which `self` owns and nobody else uses meanwhile.
        let pages = unsafe { KvPages::from_raw(self.shape, 0, &pointers) };
        T::attention(
            table,
            &mut AttentionArgs {
                pages,
                head: 0,
                tokens: 1,
                visible: Visible { end: self.positions, window: None },
                scale: 0.125,
                soft_cap: None,
                sinks: None,
                q: &self.q,
                out: AttentionOut::Whole(&mut self.out),
                scratch: &mut self.scratch,
            },
        );
        Written::Floats(&self.out)
    }
}

/// RMS normalisation of rows.
pub(crate) struct RmsNorm {
    x: Vec<f32>,
    weight: Vec<f32>,
    out: Vec<f32>,
}

impl RmsNorm {
    pub(crate) fn new((n, k): (usize, usize)) -> RmsNorm {
        RmsNorm { x: values(n * k, 6), weight: values(k, 7), out: vec![0.0; n * k] }
    }
}

impl Work for RmsNorm {
    fn run(&mut self, table: &KernelTable) -> Written<'_> {
        table.rms_norm(&mut RmsNormArgs { x: &self.x, weight: &self.weight, eps: 1e-5, out: &mut self.out });
        Written::Floats(&self.out)
    }
}

/// A gate and its factor. The gate, which the operation overwrites, is copied first.
pub(crate) struct Gated {
    activation: Activation,
    gate: Vec<f32>,
    up: Vec<f32>,
    out: Vec<f32>,
}

impl Gated {
    pub(crate) fn new(activation: Activation, len: usize) -> Gated {
        Gated { activation, gate: values(len, 8), up: values(len, 9), out: vec![0.0; len] }
    }
}

impl Work for Gated {
    fn run(&mut self, table: &KernelTable) -> Written<'_> {
        self.out.copy_from_slice(&self.gate);
        table.gated(&mut GatedArgs { activation: self.activation, gate: &mut self.out, up: &self.up });
        Written::Floats(&self.out)
    }
}

/// The rotation of the heads of one token, again and again.
pub(crate) struct Rope {
    pairs: RopePairs,
    x: Vec<f32>,
    head_dim: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rope {
    pub(crate) fn new(pairs: RopePairs, (heads, head_dim): (usize, usize)) -> Rope {
        let frequencies: Vec<f32> = (0..head_dim / 2).map(|i| 1.0 / (1 + i) as f32).collect();
        let (mut cos, mut sin) = (frequencies.clone(), frequencies.clone());
        rope_table(321, &frequencies, 1.0, (&mut cos, &mut sin));
        Rope { pairs, x: values(heads * head_dim, 10), head_dim, cos, sin }
    }
}

impl Work for Rope {
    fn run(&mut self, table: &KernelTable) -> Written<'_> {
        table.rope(&mut RopeArgs {
            x: &mut self.x,
            head_dim: self.head_dim,
            pairs: self.pairs,
            cos: &self.cos,
            sin: &self.sin,
        });
        Written::Floats(&self.x)
    }
}
