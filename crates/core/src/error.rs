//! The error type of this crate.

use cera_quant::QuantError;
use cera_quant::kv::KvType;

/// What can go wrong in building and running a graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape or format does not fit a kernel.
    #[error(transparent)]
    Quant(#[from] QuantError),
    /// An operand of an op has the wrong shape.
    #[error("{op}: {what} is {got}, expected {expected}")]
    Operand {
        /// The op, by its name in the graph.
        op: String,
        /// Which size is wrong.
        what: &'static str,
        /// The size that fits.
        expected: usize,
        /// The size that was given.
        got: usize,
    },
    /// A weight given to a program is not the one that its graph declares.
    #[error("{name}: expected {expected}, found {got}")]
    Weight {
        /// The weight.
        name: String,
        /// Format and shape that the graph declares.
        expected: String,
        /// Format and shape that were given.
        got: String,
    },
    /// A sequence would outgrow its context.
    #[error("the context is full: {held} positions held and {added} to add, of at most {limit}")]
    ContextFull {
        /// Positions that the sequence holds.
        held: usize,
        /// Tokens that the step adds.
        added: usize,
        /// The most positions that it can hold.
        limit: usize,
    },
    /// A token id is past the vocabulary.
    #[error("token {token} is outside of the vocabulary of {vocabulary}")]
    Token {
        /// The token id.
        token: u32,
        /// Rows of the embedding.
        vocabulary: usize,
    },
    /// A wanted logit is infinite or not a number.
    #[error("the logit of token {token} at position {position} is not finite")]
    NonFinite {
        /// The position in the sequence.
        position: usize,
        /// The token.
        token: usize,
    },
    /// A state or snapshot belongs to another model or KV type.
    #[error("the state belongs to another model or another KV type")]
    StateMismatch,
    /// The heads of a layer are not whole blocks of the KV type.
    #[error("a {} cache needs heads of whole blocks, not of {k_dim} and {v_dim} elements", kv.label())]
    KvBlocks {
        /// The KV type.
        kv: KvType,
        /// Elements of a key.
        k_dim: usize,
        /// Elements of a value.
        v_dim: usize,
    },
    /// A stored state cannot be read.
    #[error("the stored state cannot be read: {reason}")]
    Read {
        /// What the source says.
        reason: String,
    },
    /// The system refused memory.
    #[error("the system refused {bytes} bytes of memory")]
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// A worker panicked: a bug of this library. The step was not done.
    #[error("a worker panicked: {0}")]
    Panic(String),
    /// The step was not done because its [`CancelToken`](crate::CancelToken) asked for that.
    #[error("the step was cancelled")]
    Cancelled,
    /// A step was asked for from inside of a step.
    #[error("a step cannot be run from inside of a step")]
    Nested,
    /// The system refused to start a thread.
    #[error("worker {worker} cannot be started: {reason}")]
    Thread {
        /// The worker.
        worker: usize,
        /// What the system says.
        reason: String,
    },
}
