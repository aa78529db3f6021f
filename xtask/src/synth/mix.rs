//! Which tensor gets which format.
//!
//! Source: the choices of llama.cpp's quantizer (`llama_tensor_get_type` in `src/llama-quant.cpp`).

use cera_quant::Format;

use super::shape::{Role, Shape, Tensor};

/// A choice of formats for a whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// One format for all matrices of the layers.
    Plain(Format),
    /// A K format with finer ones for the tensors that need it most.
    Mixed(&'static MixRow),
}

/// A named mix.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MixRow {
    name: &'static str,
    file_type: u32,
    base: Format,
    /// The formats of `attn_v`, `ffn_down` and `attn_output`.
    finer: [Finer; 3],
}

/// A finer format for some layers.
#[derive(Debug, PartialEq, Eq)]
enum Finer {
    /// No layer.
    Never,
    /// Every layer.
    All(Format),
    /// The first layers, at most this number, one format; the others another.
    First(u32, Format, Format),
    /// The first eighth of the layers, or a sixteenth, by the divisor; the others another format.
    Start(u32, Format, Format),
    /// The first and the last eighth, and every third in between.
    Spread(Format),
}

use Finer::{All, First, Never, Spread, Start};
use Format::{Q3_K, Q4_K, Q5_K, Q6_K};

const MIXES: [MixRow; 6] = [
    MixRow { name: "Q3_K_S", file_type: 11, base: Q3_K, finer: [Never, Never, Never] },
    MixRow {
        name: "Q3_K_M",
        file_type: 12,
        base: Q3_K,
        finer: [First(2, Q5_K, Q4_K), Start(16, Q5_K, Q4_K), All(Q4_K)],
    },
    MixRow {
        name: "Q4_K_S",
        file_type: 14,
        base: Q4_K,
        finer: [First(4, Q5_K, Q4_K), Start(8, Q5_K, Q4_K), Never],
    },
    MixRow { name: "Q4_K_M", file_type: 15, base: Q4_K, finer: [Spread(Q6_K), Spread(Q6_K), Never] },
    MixRow { name: "Q5_K_S", file_type: 16, base: Q5_K, finer: [Never, Never, Never] },
    MixRow { name: "Q5_K_M", file_type: 17, base: Q5_K, finer: [Spread(Q6_K), Spread(Q6_K), Never] },
];

/// The mix of this name; the error lists all names.
pub(super) fn parse(name: &str) -> Result<Mix, String> {
    if let Some(format) = Format::from_label(name) {
        return Ok(Mix::Plain(format));
    }
    if let Some(row) = MIXES.iter().find(|row| row.name.eq_ignore_ascii_case(name)) {
        return Ok(Mix::Mixed(row));
    }
    let labels = Format::ALL.map(Format::label).into_iter().chain(MIXES.iter().map(|row| row.name));
    Err(format!("types are {}", labels.collect::<Vec<_>>().join(", ")))
}

impl Mix {
    /// The format of a tensor; `pure` keeps the embedding and the head from getting a finer one.
    pub(super) fn format_of(self, tensor: &Tensor, shape: &Shape, pure: bool) -> Format {
        let wanted = match (tensor.role, self) {
            (Role::Unquantized, _) => return Format::F32,
            (Role::Vocabulary, _) if pure => self.base(),
            (Role::Vocabulary, _) => self.vocabulary_format(tensor, shape),
            (_, Mix::Plain(format)) => format,
            (role, Mix::Mixed(row)) => {
                row.finer(role).choose(tensor.place, tensor.places).unwrap_or(row.base)
            }
        };
        fitting(wanted, tensor.dims[0])
    }

    fn base(self) -> Format {
        match self {
            Mix::Plain(format) => format,
            Mix::Mixed(row) => row.base,
        }
    }

    /// The head, tied or not, gets Q6_K unless it has 8 bits or more; an embedding of its own the base format.
    fn vocabulary_format(self, tensor: &Tensor, shape: &Shape) -> Format {
        let is_head = shape.tied || tensor.name.starts_with("output");
        match self.base() {
            base @ (Format::F32 | Format::F16 | Format::BF16 | Format::Q8_0) => base,
            _ if is_head => Q6_K,
            base => base,
        }
    }

    /// The value of `general.file_type`.
    pub(super) fn file_type(self) -> u32 {
        match self {
            Mix::Mixed(row) => row.file_type,
            Mix::Plain(format) => match format {
                Format::F32 => 0,
                Format::F16 => 1,
                Format::Q4_0 => 2,
                Format::Q4_1 => 3,
                Format::Q8_0 => 7,
                Format::Q5_0 => 8,
                Format::Q5_1 => 9,
                Format::Q2_K => 10,
                Format::Q3_K => 11,
                Format::Q4_K => 14,
                Format::Q5_K => 16,
                Format::Q6_K => 18,
                Format::IQ4_NL => 25,
                Format::IQ4_XS => 30,
                Format::BF16 => 32,
                Format::MXFP4 => 38,
            },
        }
    }
}

impl MixRow {
    fn finer(&self, role: Role) -> &Finer {
        match role {
            Role::AttnV => &self.finer[0],
            Role::FfnDown => &self.finer[1],
            Role::AttnOutput => &self.finer[2],
            Role::Other | Role::Unquantized | Role::Vocabulary => &Never,
        }
    }
}

impl Finer {
    fn choose(&self, layer: u32, layers: u32) -> Option<Format> {
        let eighth = layers / 8;
        match *self {
            Never => None,
            All(format) => Some(format),
            First(count, first, rest) => Some(if layer < count { first } else { rest }),
            Start(divisor, first, rest) => Some(if layer < layers / divisor { first } else { rest }),
            Spread(format) => {
                let third = layer >= eighth && (layer - eighth) % 3 == 2;
                (layer < eighth || layer >= 7 * layers / 8 || third).then_some(format)
            }
        }
    }
}

/// The format that rows of `k` elements can have in place of one whose blocks they do not fill.
fn fitting(format: Format, k: u32) -> Format {
    let fills = |format: Format| (k as usize).is_multiple_of(format.block_len());
    if fills(format) {
        return format;
    }
    let narrow = match format {
        Format::Q4_K => Format::Q5_0,
        Format::Q5_K => Format::Q5_1,
        Format::Q6_K => Format::Q8_0,
        _ => Format::IQ4_NL,
    };
    if fills(narrow) { narrow } else { Format::F16 }
}
