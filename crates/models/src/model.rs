//! A model: file, graph and weights, ready to run.

use std::path::Path;
use std::sync::Arc;

use cera_core::graph::MatrixInfo;
use cera_core::{
    ByteSource, KernelId, KernelTable, Logits, Matrix, Program, ProgramOptions, Runtime, SeqState, SeqStep,
};
use cera_quant::kv::KvType;

use crate::ModelError;
use crate::arch::{self, Blueprint};
use crate::gguf::{GgufSet, LoadMode, TensorInfo};

/// How a model is loaded. None of it changes a bit of its logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOptions {
    /// Whether the file is mapped or read.
    pub load: LoadMode,
    /// Whether matrices are packed at load; otherwise strips are packed as they are used.
    pub repack: bool,
    /// How the graph is planned and run.
    pub program: ProgramOptions,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions { load: LoadMode::Map, repack: true, program: ProgramOptions::default() }
    }
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
}

/// The data of one tensor, kept by keeping its file.
#[derive(Debug)]
struct TensorBytes {
    file: Arc<GgufSet>,
    info: TensorInfo,
}

impl ByteSource for TensorBytes {
    fn bytes(&self) -> &[u8] {
        self.file.tensor_data(&self.info)
    }
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
        Model::from_file(Arc::new(GgufSet::open(path, options.load)?), runtime, options)
    }

    /// Loads the model in an open file.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_file(
        file: Arc<GgufSet>,
        runtime: Arc<Runtime>,
        options: ModelOptions,
    ) -> Result<Model, ModelError> {
        let Blueprint { graph, context_length } = arch::build(&file)?;
        let weights: Result<Vec<Matrix>, ModelError> =
            graph.matrices().iter().map(|info| weight(&file, info, options.repack)).collect();
        let program = Program::new(graph, weights?, runtime, options.program)?;
        Ok(Model { file, program, context_length })
    }

    /// Which kernels of `table` would serve the matrices of the model in `file`, without loading it.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn kernels(file: &GgufSet, table: &KernelTable) -> Result<Vec<TensorKernels>, ModelError> {
        let graph = arch::build(file)?.graph;
        let kernels = graph.matrices().iter().map(|info| TensorKernels {
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

fn weight(file: &Arc<GgufSet>, info: &MatrixInfo, repack: bool) -> Result<Matrix, ModelError> {
    let tensor = file.expect_tensor(&info.name)?;
    let source = Arc::new(TensorBytes { file: file.clone(), info: tensor.clone() });
    let plain = Matrix::plain(info.format, (info.m, info.k), source, 0..tensor.byte_len())?;
    if !(repack && info.matmul) {
        return Ok(plain);
    }
    let packed = plain.packed()?;
    file.release(tensor);
    Ok(packed)
}
