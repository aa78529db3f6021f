//! Attention: the queries of one KV head of some consecutive tokens of a sequence at a time, a *tile*.
//!
//! A pass of few tokens has fewer tiles than would fill the workers. Then the keys of a tile are split as well, into
//! *pieces* of whole chunks; who ends the last piece of a tile joins the chunks of all of them, in increasing order, so
//! that the results do not depend on the split.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use cera_quant::kv::{KvShape, KvType, Q8Unit};
use cera_quant::ops::{
    AttentionArgs, AttentionOut, AttentionScratch, CHUNK_KEYS, MergeArgs, Visible, part_len,
};

use super::Pass;
use crate::exec::batch::Batch;
use crate::graph::{AttentionInfo, Graph, StateId, ValueId};
use crate::plan::Phase;
use crate::state::LayerState;
use crate::table::{Kernels, KvKernels};

/// Queries of a tile at most: more spread the conversion of keys and values over more work, fewer stay in the cache.
const TILE_ROWS: usize = 128;

/// Tiles and heads per worker below which tiles are made smaller and keys are split.
const ITEMS_PER_WORKER: usize = 4;

thread_local! {
    /// Scratch of a worker.
    static SCRATCH: RefCell<Scratch> = const {
        RefCell::new(Scratch { kernel: AttentionScratch::new(), q: Vec::new(), out: Vec::new() })
    };
}

/// What a worker needs for a tile.
struct Scratch {
    kernel: AttentionScratch,
    /// The queries of the tile, without those of other heads between them.
    q: Vec<f32>,
    /// The results of the tile, likewise.
    out: Vec<f32>,
}

/// How the phases of attention of a pass are cut.
pub(super) struct Cuts {
    /// By phase.
    cuts: Vec<Option<Cut>>,
    /// The tiles of all cuts.
    tiles: Vec<Range<usize>>,
    /// Pieces that have ended, by item.
    ended: Vec<AtomicUsize>,
}

/// How one phase of attention is cut: into items, each a tile and a KV head, and these into pieces.
#[derive(Clone)]
struct Cut {
    /// Its tiles among all tiles, those with the most keys first.
    tiles: Range<usize>,
    heads: usize,
    /// Pieces of an item.
    pieces: usize,
    /// Elements for the parts of an item.
    parts: usize,
}

impl Cuts {
    /// Cuts the phases of attention for the tokens of `batch` on some workers.
    pub(super) fn new(phases: &[Phase], graph: &Graph, batch: &Batch, workers: usize) -> Cuts {
        let mut all = Cuts { cuts: Vec::with_capacity(phases.len()), tiles: Vec::new(), ended: Vec::new() };
        let mut made: Vec<(usize, Range<usize>)> = Vec::new();
        let end = batch.positions.iter().max().map_or(0, |last| last + 1);
        for phase in phases {
            let Phase::Attention { q, info, .. } = phase else {
                all.cuts.push(None);
                continue;
            };
            let (shape, window) = kv_layer(graph, info.state);
            let queries = graph.value(*q).width / (shape.heads * shape.k_dim);
            let wanted = ITEMS_PER_WORKER * workers;
            let share = batch.len() * shape.heads / wanted;
            let tokens = share.min(TILE_ROWS / queries.max(1)).max(1);
            let tiles = match made.iter().find(|(of, _)| *of == tokens) {
                Some((_, tiles)) => tiles.clone(),
                None => {
                    let tiles = all.add_tiles(batch, tokens);
                    made.push((tokens, tiles.clone()));
                    tiles
                }
            };
            let items = tiles.len() * shape.heads;
            let seen = window.map_or(end, |window| end.min(window + CHUNK_KEYS - 1));
            let chunks = seen.div_ceil(CHUNK_KEYS);
            let split = if workers > 1 && tokens == 1 { wanted.div_ceil(items.max(1)) } else { 1 };
            let pieces = split.min(chunks).max(1);
            let parts = if pieces > 1 { chunks * queries * part_len(shape.v_dim) } else { 0 };
            if pieces > 1 && all.ended.len() < items {
                all.ended.resize_with(items, AtomicUsize::default);
            }
            all.cuts.push(Some(Cut { tiles, heads: shape.heads, pieces, parts }));
        }
        all
    }

    /// Cuts every run of tokens of a sequence into tiles.
    fn add_tiles(&mut self, batch: &Batch, tokens: usize) -> Range<usize> {
        let first = self.tiles.len();
        for run in batch.runs() {
            self.tiles.extend(run.clone().step_by(tokens).map(|from| from..run.end.min(from + tokens)));
        }
        self.tiles[first..].sort_by_key(|tile| std::cmp::Reverse(batch.positions[tile.start]));
        first..self.tiles.len()
    }

    /// Elements for the parts of all items of a phase.
    pub(super) fn parts(&self) -> usize {
        let of = |cut: &Cut| cut.tiles.len() * cut.heads * cut.parts;
        self.cuts.iter().flatten().map(of).max().unwrap_or(0)
    }

    /// Chunks of the phase for the pool.
    pub(super) fn chunks(&self, phase: usize) -> usize {
        self.cuts[phase].as_ref().map_or(0, |cut| cut.tiles.len() * cut.heads * cut.pieces)
    }
}

/// The heads and the window of a layer with keys and values.
///
/// # Panics
/// If it has none: the builder of the graph checked it.
fn kv_layer(graph: &Graph, state: StateId) -> (KvShape, Option<usize>) {
    match graph.state.layers[state.0] {
        LayerState::Kv { shape, window } => (shape, window),
        LayerState::Recurrent { .. } => panic!("the planner took a recurrent layer for one with keys"),
    }
}

/// One piece of an item.
struct Piece<'a> {
    cut: &'a Cut,
    tokens: Range<usize>,
    item: usize,
    head: usize,
    piece: usize,
}

impl Pass<'_> {
    /// The heads and the window of a layer with keys and values.
    pub(super) fn kv_layer(&self, state: StateId) -> (KvShape, Option<usize>) {
        kv_layer(self.graph(), state)
    }

    /// Runs a chunk of a phase of attention.
    pub(super) fn attention(
        &self,
        (phase, chunk): (usize, usize),
        args: (ValueId, &AttentionInfo, ValueId),
        kernels: &Kernels<'_>,
    ) {
        let Some(cut) = &self.cuts.cuts[phase] else { return };
        let (item, piece) = (chunk / cut.pieces, chunk % cut.pieces);
        let tokens = self.cuts.tiles[cut.tiles.clone()][item / cut.heads].clone();
        let piece = Piece { cut, item, head: item % cut.heads, piece, tokens };
        SCRATCH.with_borrow_mut(|scratch| match self.batch.kv_type(piece.tokens.start) {
            KvType::F32 => self.attend::<f32>(&piece, args, kernels, scratch),
            KvType::F16 => self.attend::<u16>(&piece, args, kernels, scratch),
            KvType::Q8_0 => self.attend::<Q8Unit>(&piece, args, kernels, scratch),
        });
    }

    fn attend<T: KvKernels>(
        &self,
        piece: &Piece<'_>,
        (q, info, out): (ValueId, &AttentionInfo, ValueId),
        kernels: &Kernels<'_>,
        Scratch { kernel, q: queries, out: results }: &mut Scratch,
    ) {
        let tokens = piece.tokens.clone();
        let (shape, window) = self.kv_layer(info.state);
        // SAFETY: the pages of the sequence of the tokens consist of `T`; nothing writes pages in this phase.
        let pages = unsafe { self.batch.pages::<T>(tokens.start, info.state, shape) };
        // SAFETY: queries are from an earlier phase (barriers).
        let q = unsafe { self.read(q, tokens.clone()) };
        let row = q.len() / tokens.len();
        let len = row / shape.heads;
        queries.clear();
        for q in q.chunks_exact(row) {
            queries.extend_from_slice(&q[piece.head * len..][..len]);
        }
        results.resize(queries.len() / shape.k_dim * shape.v_dim, 0.0);
        let group = len / shape.k_dim;
        let sinks = info.sinks.map(|sinks| &self.graph().vectors[sinks.0][piece.head * group..][..group]);
        let visible = Visible { end: self.batch.positions[tokens.start] + 1, window };
        let chunks = visible.chunks(tokens.len());
        let mut run = |out: AttentionOut<'_>| {
            let (tokens, head, scale, soft_cap) = (tokens.len(), piece.head, info.scale, info.soft_cap);
            let (q, scratch) = (&queries[..], &mut *kernel);
            T::attention(
                kernels,
                &mut AttentionArgs { pages, head, tokens, visible, scale, soft_cap, sinks, q, out, scratch },
            );
        };
        if piece.cut.pieces == 1 {
            run(AttentionOut::Whole(results));
        } else {
            let v_dim = shape.v_dim;
            let len = results.len() / v_dim * part_len(v_dim);
            let cut = |piece: usize, pieces: usize| chunks.len() * piece / pieces;
            let own = cut(piece.piece, piece.cut.pieces)..cut(piece.piece + 1, piece.cut.pieces);
            let base = piece.item * piece.cut.parts;
            // SAFETY: the parts of these chunks of the item belong to this piece (chunks).
            let parts = unsafe { self.memory.parts_mut(base + own.start * len..base + own.end * len) };
            run(AttentionOut::Parts { chunks: chunks.start + own.start..chunks.start + own.end, parts });
            let ended = &self.cuts.ended[piece.item];
            if ended.fetch_add(1, Ordering::AcqRel) + 1 < piece.cut.pieces {
                return;
            }
            ended.store(0, Ordering::Relaxed);
            // SAFETY: all pieces of the item have ended: each ended by an addition to the count, of which this was the
            // last, so that their writes are seen here and nobody writes the parts any more.
            let parts = unsafe { self.memory.parts(base..base + chunks.len() * len) };
            kernels.merge_attention(&mut MergeArgs { v_dim, parts, sinks, out: results });
        }
        self.store(results, piece, out);
    }

    /// Puts the results of an item to where they belong.
    fn store(&self, results: &[f32], piece: &Piece<'_>, out: ValueId) {
        let len = results.len() / piece.tokens.len();
        let first = self.memory.ptr(self.plan().values[out.0]);
        for (token, from) in piece.tokens.clone().zip(results.chunks_exact(len)) {
            // SAFETY: the results of a token and KV head are written by one chunk (chunks) and lie inside of the value,
            // whose rows are `heads * len` elements.
            let to = unsafe {
                std::slice::from_raw_parts_mut(first.add((token * piece.cut.heads + piece.head) * len), len)
            };
            to.copy_from_slice(from);
        }
    }
}
