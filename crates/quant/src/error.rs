//! The error type of this crate.

use crate::Format;

/// What can be wrong with the arguments of this crate's functions.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// A length or shape does not fit.
    #[error("{what}: expected {expected}, found {got}")]
    ShapeMismatch {
        /// Which length is wrong, with its unit.
        what: &'static str,
        /// The length that fits.
        expected: usize,
        /// The length that was given.
        got: usize,
    },
    /// A row length is not a whole number of blocks.
    #[error("a row of {k} elements is not a whole number of {format} blocks of {block}")]
    PartialBlock {
        /// The weight format.
        format: Format,
        /// Elements in the row.
        k: usize,
        /// Elements per block.
        block: usize,
    },
    /// The formats of two arguments do not go together.
    #[error("{what}: expected {expected}, found {got}")]
    FormatMismatch {
        /// Which argument is wrong.
        what: &'static str,
        /// The format that fits.
        expected: &'static str,
        /// The format that was given.
        got: &'static str,
    },
    /// A range ends beyond what there is.
    #[error("{what}: the range ends at {end} of {len}")]
    OutOfRange {
        /// What is counted.
        what: &'static str,
        /// The end of the range.
        end: usize,
        /// How many there are.
        len: usize,
    },
    /// A size in bytes does not fit the address space.
    #[error("{what}: {m} rows of {k} elements do not fit the address space")]
    TooLarge {
        /// What was to be sized.
        what: &'static str,
        /// Rows.
        m: usize,
        /// Elements per row.
        k: usize,
    },
    /// A format has no quantizer.
    #[error("{format} has no quantizer")]
    NoQuantizer {
        /// The weight format.
        format: Format,
    },
    /// A number has no place in a format: it is not finite, or beyond the format's range.
    #[error("element {index} is {value}, which {format} cannot represent")]
    Unrepresentable {
        /// The weight format.
        format: Format,
        /// The position in the row.
        index: usize,
        /// The number.
        value: f32,
    },
}
