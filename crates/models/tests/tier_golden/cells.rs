//! Ways to compute the logits of a sequence, none of which may change a bit of them.

use cera_core::{ProgramOptions, SeqState, SeqStep, Want};
use cera_models::gguf::LoadMode;
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;

use crate::kernels::Passes;

/// A fixed sequence of token ids that wanders over the vocabulary.
pub(crate) fn sequence(len: usize, vocabulary: usize, seed: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 31 + i * 7919 + seed * 104_729) % vocabulary) as u32).collect()
}

/// One way to compute the logits of a sequence.
pub(crate) type Arrangement = fn(&Model, &[u32], KvType) -> Vec<f32>;

fn state(model: &Model, kv: KvType) -> SeqState {
    model.program().new_state(kv, 1024)
}

fn feed(model: &Model, state: &mut SeqState, tokens: &[u32]) -> Vec<f32> {
    model.step(&mut [SeqStep { state, tokens, want: Want::All }]).unwrap().data().to_vec()
}

fn whole(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    feed(model, &mut state(model, kv), tokens)
}

/// Half, then the other half on a fork while the original takes something else.
fn forked(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let (first, second) = tokens.split_at(tokens.len() / 2);
    let mut original = state(model, kv);
    let mut logits = feed(model, &mut original, first);
    let mut fork = original.fork();
    feed(model, &mut original, &sequence(9, model.vocabulary(), 5));
    logits.extend(feed(model, &mut fork, second));
    logits
}

/// Half, something else that is taken back as far as the state can, then the rest.
fn truncated(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let first = &tokens[..tokens.len() / 2];
    let mut state = state(model, kv);
    let mut logits = feed(model, &mut state, first);
    feed(model, &mut state, &sequence(40, model.vocabulary(), 6));
    let kept = state.truncate(first.len());
    let rest = feed(model, &mut state, &tokens[kept..]);
    logits.extend(&rest[(first.len() - kept) * model.vocabulary()..]);
    logits
}

/// Half, a snapshot, something else, back to the snapshot, then the other half.
fn restored(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let (first, second) = tokens.split_at(tokens.len() / 2);
    let mut state = state(model, kv);
    let mut logits = feed(model, &mut state, first);
    let snapshot = state.snapshot();
    feed(model, &mut state, &sequence(30, model.vocabulary(), 7));
    state.restore(&snapshot).unwrap();
    logits.extend(feed(model, &mut state, second));
    logits
}

/// In pieces of growing size, each in one step with tokens of two other sequences, one of the other KV type.
fn batched(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let other_kv = if kv == KvType::F32 { KvType::F16 } else { KvType::F32 };
    let (mut a, mut b, mut c) = (state(model, kv), state(model, kv), state(model, other_kv));
    let (mut logits, mut from, mut size) = (Vec::new(), 0, 1);
    while from < tokens.len() {
        let to = tokens.len().min(from + size);
        let (tb, tc) = (sequence(3, model.vocabulary(), from), sequence(size % 4, model.vocabulary(), size));
        let steps = &mut [
            SeqStep { state: &mut b, tokens: &tb, want: Want::Last },
            SeqStep { state: &mut a, tokens: &tokens[from..to], want: Want::All },
            SeqStep { state: &mut c, tokens: &tc, want: Want::None },
        ];
        logits.extend_from_slice(model.step(steps).unwrap().sequence(1));
        (from, size) = (to, size + 2);
    }
    logits
}

/// The KV types that have golden hashes.
pub(crate) const KV_TYPES: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

/// A way to get the logits of a sequence, on each of some KV types: none may depart from the first cell.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) options: ModelOptions,
    pub(crate) arrangement: Arrangement,
    pub(crate) kv: &'static [KvType],
    /// What the passes hold, which says which kernels must run.
    pub(crate) passes: Passes,
}

fn program(chunk: usize) -> ModelOptions {
    ModelOptions { program: ProgramOptions { chunk, ..ProgramOptions::default() }, ..ModelOptions::default() }
}

impl Cell {
    fn new(name: &str, threads: usize, options: ModelOptions, arrangement: Arrangement) -> Cell {
        Cell {
            name: name.to_owned(),
            threads,
            options,
            arrangement,
            kv: &KV_TYPES,
            passes: Passes::AtLeastSeveral,
        }
    }

    /// The whole sequence at once, in passes of `chunk` tokens. No pass may be left with one token of several.
    fn whole(threads: usize, chunk: usize) -> Cell {
        let passes = if chunk == 1 { Passes::One } else { Passes::Several };
        let name = format!("{threads} threads, chunk {chunk}");
        Cell { passes, ..Cell::new(&name, threads, program(chunk), whole) }
    }

    /// The floating-point types of those that the cell has.
    pub(crate) fn without_q8_0(self) -> Cell {
        let floats = self.kv.iter().take_while(|&&kv| kv != KvType::Q8_0).count();
        Cell { kv: &self.kv[..floats], ..self }
    }

    fn with_f16_only(self) -> Cell {
        Cell { kv: &[KvType::F16], ..self }
    }
}

/// Threads by chunks.
fn matrix() -> impl Iterator<Item = Cell> {
    [1, 2, 3].into_iter().flat_map(|threads| [512, 1, 7, 32].map(|chunk| Cell::whole(threads, chunk)))
}

/// Every way: threads by chunks, then the arrangements.
pub(crate) fn all() -> Vec<Cell> {
    let plain = ModelOptions::default();
    let unfused = ProgramOptions { fuse: false, ..ProgramOptions::default() };
    let first = Cell::whole(1, 512);
    let arranged = [
        Cell::new("forked", 2, plain, forked),
        Cell::new("truncated", 1, plain, truncated),
        Cell::new("restored", 2, plain, restored),
        Cell::new("batched", 3, plain, batched),
        Cell::new("batched, chunk 7", 2, program(7), batched),
        Cell::new("unfused", 2, ModelOptions { program: unfused, ..plain }, whole),
        Cell::new("not repacked", 2, ModelOptions { repack: false, ..plain }, whole),
        Cell::new("read, not mapped", 1, ModelOptions { load: LoadMode::Read, ..plain }, whole),
    ];
    let rest = matrix().skip(1).map(Cell::with_f16_only);
    std::iter::once(first).chain(rest).chain(arranged).collect()
}

/// Threads by chunks, all KV types each: for sequences that are longer than a chunk of keys and a pass.
pub(crate) fn long() -> Vec<Cell> {
    matrix().collect()
}

/// One way to compute a long sequence, where the others cost too much.
pub(crate) fn one() -> Vec<Cell> {
    vec![Cell::whole(2, 512)]
}

/// Where time is short: the whole sequence, and the cell that differs most from it.
pub(crate) fn few() -> Vec<Cell> {
    vec![Cell::whole(1, 512), Cell::new("batched, chunk 7", 2, program(7), batched).with_f16_only()]
}

/// The whole sequence of a model of a real size, every number of threads and every chunk once.
pub(crate) fn four() -> Vec<Cell> {
    let cells = [(1, 512, 0), (2, 7, 0), (2, 1, 1), (3, 32, 1)];
    let cells =
        cells.map(|(threads, chunk, kv)| Cell { kv: &KV_TYPES[kv..=kv], ..Cell::whole(threads, chunk) });
    cells.into()
}

/// More for one model of a real size: passes of all lengths, and the arrangements.
pub(crate) fn some() -> Vec<Cell> {
    let whole = [(2, 1), (2, 7), (3, 32), (2, 512)];
    let whole = whole.map(|(threads, chunk)| Cell::whole(threads, chunk));
    let arranged: [(&str, usize, Arrangement); 4] = [
        ("forked", 1, forked),
        ("truncated", 2, truncated),
        ("restored", 3, restored),
        ("batched", 2, batched),
    ];
    let plain = ModelOptions::default();
    let arranged = arranged.map(|(name, threads, arrangement)| Cell::new(name, threads, plain, arrangement));
    let rest = whole.into_iter().chain(arranged).map(Cell::with_f16_only);
    std::iter::once(Cell::whole(1, 512)).chain(rest).collect()
}
