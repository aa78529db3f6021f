//! The weight formats and their sizes.

use std::fmt;

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $label:literal, $block:literal, $bytes:literal;)*) => {
        /// A weight format, spelled as in GGUF.
        ///
        /// Source: the GGUF specification (`ggml_type`), ggml-org/ggml `docs/gguf.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types)]
        pub enum Format {
            $($(#[$doc])* $variant,)*
        }

        impl Format {
            /// Every format, in declaration order: `ALL[f.index()] == f`.
            pub const ALL: [Format; Format::COUNT] = [$(Format::$variant,)*];

            /// The number of formats.
            pub const COUNT: usize = [$($id,)*].len();

            /// The format with this `ggml_type` id.
            pub const fn from_gguf_id(id: u32) -> Option<Format> {
                match id { $($id => Some(Format::$variant),)* _ => None }
            }

            /// The `ggml_type` id.
            pub const fn gguf_id(self) -> u32 {
                match self { $(Format::$variant => $id,)* }
            }

            /// The name in GGUF spelling, upper case, as in `Q4_K`.
            pub const fn label(self) -> &'static str {
                match self { $(Format::$variant => $label,)* }
            }

            /// Elements per block.
            pub const fn block_len(self) -> usize {
                match self { $(Format::$variant => $block,)* }
            }

            /// Bytes per block, in the file and in the packed form alike.
            pub const fn block_bytes(self) -> usize {
                match self { $(Format::$variant => $bytes,)* }
            }
        }
    };
}

formats! {
    /// IEEE 754 single precision.
    F32 = 0, "F32", 1, 4;
    /// IEEE 754 half precision.
    F16 = 1, "F16", 1, 2;
    /// The upper half of an IEEE 754 single.
    BF16 = 30, "BF16", 1, 2;
    /// 4 bits, one f16 scale per 32.
    Q4_0 = 2, "Q4_0", 32, 18;
    /// 4 bits, f16 scale and minimum per 32.
    Q4_1 = 3, "Q4_1", 32, 20;
    /// 5 bits, one f16 scale per 32.
    Q5_0 = 6, "Q5_0", 32, 22;
    /// 5 bits, f16 scale and minimum per 32.
    Q5_1 = 7, "Q5_1", 32, 24;
    /// 8 bits, one f16 scale per 32.
    Q8_0 = 8, "Q8_0", 32, 34;
    /// 2 bits, 4-bit scales and minima per 16 in blocks of 256.
    Q2_K = 10, "Q2_K", 256, 84;
    /// 3 bits, 6-bit scales per 16 in blocks of 256.
    Q3_K = 11, "Q3_K", 256, 110;
    /// 4 bits, 6-bit scales and minima per 32 in blocks of 256.
    Q4_K = 12, "Q4_K", 256, 144;
    /// 5 bits, 6-bit scales and minima per 32 in blocks of 256.
    Q5_K = 13, "Q5_K", 256, 176;
    /// 6 bits, 8-bit scales per 16 in blocks of 256.
    Q6_K = 14, "Q6_K", 256, 210;
    /// 4-bit codes of a fixed table, one f16 scale per 32.
    IQ4_NL = 20, "IQ4_NL", 32, 18;
    /// 4-bit codes of a fixed table, 6-bit scales per 32 in blocks of 256.
    IQ4_XS = 23, "IQ4_XS", 256, 136;
    /// 4-bit floats (E2M1), one power-of-two scale (E8M0) per 32.
    MXFP4 = 39, "MXFP4", 32, 17;
}

impl Format {
    /// The position in [`Format::ALL`], for tables indexed by format.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The format with this name, in any case.
    pub fn from_label(label: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.label().eq_ignore_ascii_case(label))
    }

    /// Bytes of a row of `k` elements, or `None` if `k` is not a whole number of blocks or the size overflows.
    pub const fn row_bytes(self, k: usize) -> Option<usize> {
        if !k.is_multiple_of(self.block_len()) {
            return None;
        }
        (k / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}
