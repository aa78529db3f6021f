//! Tensor types: the formats that cera computes with, and the others that files may contain.

use std::fmt;

use cera_quant::Format;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorType {
    /// A format that cera computes with.
    Format(Format),
    /// A type that ggml knows and cera has no kernels for. Such tensors can be listed.
    Other {
        /// The `ggml_type` id.
        id: u32,
        /// The name in GGUF spelling.
        name: &'static str,
        /// Elements per block.
        block_len: usize,
        /// Bytes per block.
        block_bytes: usize,
    },
}

macro_rules! others {
    ($($id:literal, $name:literal, $block_len:literal, $block_bytes:literal;)*) => {
        /// The types without kernels, by id.
        const OTHERS: &[TensorType] = &[
            $(TensorType::Other {
                id: $id,
                name: $name,
                block_len: $block_len,
                block_bytes: $block_bytes,
            },)*
        ];
    };
}

// Ids 4 and 5 were never used in a GGUF file. 31 to 33 and 36 to 38 are row-interleaved forms that ggml has removed.
// Source: ggml-org/llama.cpp `gguf-py/gguf/constants.py` (`GGML_QUANT_SIZES`), `ggml/src/ggml-common.h` for `Q8_1`.
others! {
    9, "Q8_1", 32, 36;
    15, "Q8_K", 256, 292;
    16, "IQ2_XXS", 256, 66;
    17, "IQ2_XS", 256, 74;
    18, "IQ3_XXS", 256, 98;
    19, "IQ1_S", 256, 50;
    21, "IQ3_S", 256, 110;
    22, "IQ2_S", 256, 82;
    24, "I8", 1, 1;
    25, "I16", 1, 2;
    26, "I32", 1, 4;
    27, "I64", 1, 8;
    28, "F64", 1, 8;
    29, "IQ1_M", 256, 56;
    31, "Q4_0_4_4", 32, 18;
    32, "Q4_0_4_8", 32, 18;
    33, "Q4_0_8_8", 32, 18;
    34, "TQ1_0", 256, 54;
    35, "TQ2_0", 256, 66;
    36, "IQ4_NL_4_4", 32, 18;
    37, "IQ4_NL_4_8", 32, 18;
    38, "IQ4_NL_8_8", 32, 18;
    40, "NVFP4", 64, 36;
    41, "Q1_0", 128, 18;
    42, "Q2_0", 64, 18;
}

impl TensorType {
    /// The type with this `ggml_type` id, or `None` if the id is unknown.
    pub fn from_id(id: u32) -> Option<TensorType> {
        let other = || OTHERS.iter().copied().find(|ty| ty.id() == id);
        Format::from_gguf_id(id).map(TensorType::Format).or_else(other)
    }

    /// Every known type, in no particular order.
    pub fn all() -> impl Iterator<Item = TensorType> {
        Format::ALL.into_iter().map(TensorType::Format).chain(OTHERS.iter().copied())
    }

    /// The format, if cera computes with it.
    pub fn format(self) -> Option<Format> {
        match self {
            TensorType::Format(format) => Some(format),
            TensorType::Other { .. } => None,
        }
    }

    /// The `ggml_type` id.
    pub fn id(self) -> u32 {
        match self {
            TensorType::Format(format) => format.gguf_id(),
            TensorType::Other { id, .. } => id,
        }
    }

    /// The name in GGUF spelling.
    pub fn name(self) -> &'static str {
        match self {
            TensorType::Format(format) => format.label(),
            TensorType::Other { name, .. } => name,
        }
    }

    /// Elements per block.
    pub fn block_len(self) -> usize {
        match self {
            TensorType::Format(format) => format.block_len(),
            TensorType::Other { block_len, .. } => block_len,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            TensorType::Format(format) => format.block_bytes(),
            TensorType::Other { block_bytes, .. } => block_bytes,
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_means_one_type() {
        let mut ids: Vec<u32> = TensorType::all().map(TensorType::id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for ty in TensorType::all() {
            assert_eq!(TensorType::from_id(ty.id()), Some(ty));
            assert!(ty.block_len() > 0 && ty.block_bytes() > 0, "{ty}");
        }
        assert_eq!((0..1000).filter_map(TensorType::from_id).count(), count);
    }
}
