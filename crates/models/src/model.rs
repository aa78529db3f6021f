//! A model: file, graph and weights, ready to run.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cera_core::{
    DefaultMode, KernelId, KernelTable, Logits, Matrix, Program, ProgramOptions, Runtime, SeqState, SeqStep,
};
use cera_quant::Format;
use cera_quant::kv::KvType;

use crate::ModelError;
use crate::arch::{self, Blueprint};
use crate::gguf::{GgufSet, LoadMode};
use crate::hash::fingerprint;
use crate::narrow::warn_of_plain_code;
use crate::weights::Plan;

/// How a model is loaded. None of it changes a bit of its logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOptions {
    /// Whether the file is mapped or read.
    pub load: LoadMode,
    /// Whether matrices are packed at load; otherwise strips are packed as they are used.
    pub repack: bool,
    /// The most bytes of packed weights, if the file is mapped. Where those of a mixture of experts are more, the experts
    /// used last are kept and others are packed when they are chosen.
    pub memory: Option<usize>,
    /// How the graph is planned and run.
    pub program: ProgramOptions,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions { load: LoadMode::Map, repack: true, memory: None, program: ProgramOptions::default() }
    }
}

/// How far loading has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress<'a> {
    /// The tensor that was packed last.
    pub tensor: &'a str,
    /// Bytes of the file packed so far.
    pub bytes: usize,
    /// Bytes of the file to pack.
    pub total: usize,
}

/// What loading took.
///
/// Nothing is left to be warmed: packing writes every page of the packed weights, and what a step works in is touched by
/// its first user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadStats {
    /// Opening the file, checking its metadata, and building the graph.
    pub open: Duration,
    /// Bringing the weights into memory and packing them.
    pub pack: Duration,
    /// Bytes of the file or its shards.
    pub file_bytes: usize,
    /// Bytes of packed weights.
    pub packed_bytes: usize,
    /// Bytes of weights that are read as they stand in the file.
    pub plain_bytes: usize,
}

/// The kernels that serve one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorKernels {
    /// The tensor.
    pub tensor: String,
    /// The kernels for several tokens and for one, if the tensor is multiplied by activations.
    pub matmul: Option<(KernelId, KernelId)>,
    /// Whether rows are looked up by token id.
    pub embedding: bool,
}

/// A loaded model.
#[derive(Debug)]
pub struct Model {
    file: Arc<GgufSet>,
    program: Program,
    context_length: usize,
    stats: LoadStats,
    fingerprint: [u8; 32],
}

impl Model {
    /// Loads the model in a GGUF file, or in the shards that the file is one of.
    ///
    /// # Errors
    /// [`ModelError`] names the file and the key or tensor at fault.
    pub fn load(
        path: impl AsRef<Path>,
        runtime: Arc<Runtime>,
        options: ModelOptions,
    ) -> Result<Model, ModelError> {
        Model::load_with(path, runtime, options, &mut |_| {})
    }

    /// As [`Model::load`]; `progress` hears of every tensor that is packed.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_with(
        path: impl AsRef<Path>,
        runtime: Arc<Runtime>,
        options: ModelOptions,
        progress: &mut dyn FnMut(LoadProgress<'_>),
    ) -> Result<Model, ModelError> {
        let start = Instant::now();
        let _mode = DefaultMode::enter();
        let file = Arc::new(GgufSet::open(path, options.load)?);
        let Blueprint { graph, context_length } = arch::build(&file)?;
        let fingerprint = fingerprint(&file)?;
        let opened = Instant::now();
        let plan = Plan::new(&file, graph.matrices(), &options)?;
        let weights = plan.load(&file, graph.matrices(), runtime.width(), progress)?;
        let packed = Instant::now();
        let packed_bytes = weights.iter().map(Matrix::packed_len).sum();
        let plain = |w: &&Matrix| !w.is_packed();
        let row_bytes = |w: &Matrix| w.format().row_bytes(w.k()).unwrap_or(0);
        let plain_bytes = weights.iter().filter(plain).map(|w| w.stack() * w.m() * row_bytes(w)).sum();
        let program = Program::new(graph, weights, runtime, options.program)?;
        let program = match plan.resident_budget() {
            Some(budget) => program.with_resident_budget(budget),
            None => program,
        };
        warn_of_plain_code(file.name(), program.runtime().table().tier(), matrix_kernels(&program));
        let file_bytes = file.files().iter().map(|file| file.byte_len()).sum();
        let (open, pack) = (opened - start, packed - opened);
        let stats = LoadStats { open, pack, file_bytes, packed_bytes, plain_bytes };
        tracing::info!(file = file.name(), ?open, ?pack, file_bytes, packed_bytes, plain_bytes, "loaded");
        Ok(Model { file, program, context_length, stats, fingerprint })
    }

    /// How the model was loaded.
    pub fn load_stats(&self) -> LoadStats {
        self.stats
    }

    /// What tells this model from others: a SHA-256 over the heads of its files and samples of every tensor.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Which kernels of `table` would serve the matrices of the model in `file`, without loading it.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn kernels(file: &GgufSet, table: &KernelTable) -> Result<Vec<TensorKernels>, ModelError> {
        let graph = arch::build(file)?.graph;
        // Matrices of one tensor have the kernels of its format.
        let whole = graph.matrices().iter().filter(|info| info.first_row == 0);
        let kernels = whole.map(|info| TensorKernels {
            tensor: info.name.clone(),
            matmul: info
                .matmul
                .then(|| (table.matrix_id(info.format, false), table.matrix_id(info.format, true))),
            embedding: info.embedding,
        });
        Ok(kernels.collect())
    }

    /// The file.
    pub fn file(&self) -> &GgufSet {
        &self.file
    }

    /// The planned graph.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The longest context that the model was made for.
    pub fn context_length(&self) -> usize {
        self.context_length
    }

    /// Elements of a row of logits.
    pub fn vocabulary(&self) -> usize {
        self.program.graph().vocabulary()
    }

    /// An empty sequence that can grow to the model's context length.
    pub fn new_state(&self, kv: KvType) -> SeqState {
        self.program.new_state(kv, self.context_length)
    }

    /// Adds tokens to sequences and gives the wanted logits: [`Program::step`].
    ///
    /// # Errors
    /// As [`Program::step`].
    pub fn step(&self, steps: &mut [SeqStep<'_>]) -> Result<Logits, ModelError> {
        Ok(self.program.step(steps)?)
    }
}

/// The kernels of every matrix that is multiplied, those for several tokens and those for one.
fn matrix_kernels(program: &Program) -> impl Iterator<Item = (Format, KernelId)> {
    let table = program.runtime().table();
    let matrices = program.graph().matrices().iter().filter(|info| info.matmul);
    matrices.flat_map(move |info| [false, true].map(|gemv| (info.format, table.matrix_id(info.format, gemv))))
}
