//! The commands, one module each.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod completions;
mod experts;
mod input;
pub(crate) mod inspect;
mod load;
pub(crate) mod logits;
pub(crate) mod perplexity;
pub(crate) mod run;
mod sampling;
mod session;
pub(crate) mod tiers;
pub(crate) mod tokenize;

use cera_quant::kv::KvType;

/// The element type of the KV cache, as an argument.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum KvArg {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// Bytes with a scale per 32 elements.
    #[value(name = "q8_0")]
    Q8_0,
}

impl From<KvArg> for KvType {
    fn from(arg: KvArg) -> KvType {
        match arg {
            KvArg::F32 => KvType::F32,
            KvArg::F16 => KvType::F16,
            KvArg::Q8_0 => KvType::Q8_0,
        }
    }
}
