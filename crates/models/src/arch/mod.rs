//! The architectures, each as a graph built once at load.

mod llama;
mod rope;
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
const ARCHITECTURES: [(&str, Build); 1] = [("llama", llama::build)];

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
