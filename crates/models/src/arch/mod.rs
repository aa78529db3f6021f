//! The architectures, each as a graph built once at load.

mod decoder;
mod deepseek2;
mod gemma3;
mod gpt_oss;
mod granite;
mod lfm2;
mod llama;
mod olmo2;
mod params;
mod phi3;
mod pre_norm;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod qwen3next;
mod rope;
mod smollm3;
mod source;

use cera_core::graph::Graph;

use self::source::Source;
use crate::ModelError;
use crate::gguf::{GgufSet, shown};

/// A model as its architecture describes it.
pub(crate) struct Blueprint {
    /// The ops.
    pub(crate) graph: Graph,
    /// The longest context that the model was made for.
    pub(crate) context_length: usize,
}

type Build = fn(&Source<'_>) -> Result<Blueprint, ModelError>;

/// The implementations by `general.architecture`.
const ARCHITECTURES: [(&str, Build); 17] = [
    ("deepseek2", deepseek2::build),
    ("gemma3", gemma3::build),
    ("gpt-oss", gpt_oss::build),
    ("granite", granite::build),
    ("granitehybrid", granite::build_hybrid),
    ("lfm2", lfm2::build),
    ("lfm2moe", lfm2::build),
    ("llama", llama::build),
    ("olmo2", olmo2::build),
    ("phi3", phi3::build),
    ("qwen2", qwen2::build),
    ("qwen3", qwen3::build),
    ("qwen35", qwen3next::build_35),
    ("qwen35moe", qwen3next::build_35),
    ("qwen3moe", qwen3moe::build),
    ("qwen3next", qwen3next::build),
    ("smollm3", smollm3::build),
];

/// Builds the graph of the model in `file`.
pub(crate) fn build(file: &GgufSet) -> Result<Blueprint, ModelError> {
    if file.tensors().is_empty() {
        return Err(ModelError::NoTensors { file: file.name().to_owned() });
    }
    let found = file.meta().arch()?;
    match ARCHITECTURES.iter().find(|(name, _)| *name == found) {
        Some((_, build)) => {
            let source = Source::new(file);
            let blueprint = build(&source)?;
            source.expect_all_used()?;
            Ok(blueprint)
        }
        None => Err(ModelError::Architecture {
            file: file.name().to_owned(),
            found: shown(found).to_string(),
            supported: ARCHITECTURES.map(|(name, _)| name).join(", "),
        }),
    }
}
