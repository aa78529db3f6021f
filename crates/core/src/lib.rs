//! Tiers, probe, kernel tables, runtime, op graph, planner and executor.

mod backends;
mod buffer;
mod counters;
mod error;
mod exec;
mod features;
pub mod graph;
mod plan;
mod pool;
pub mod probe;
mod report;
mod resident;
pub mod roofline;
mod runtime;
pub mod settings;
mod state;
#[cfg(any(target_vendor = "apple", test))]
mod sysctl;
mod table;
mod tier;
mod weights;
pub mod width;

pub use buffer::{ALIGN, AlignedBuf};
pub use counters::KernelHits;
pub use error::Error;
pub use exec::{Logits, PhaseTime, Program, ProgramOptions, SeqStep, Tap, Want};
pub use features::{CpuFeature, CpuFeatures};
pub use pool::{CancelToken, DefaultMode};
pub use report::TiersReport;
pub use resident::ResidentStats;
pub use runtime::{Runtime, RuntimeError};
pub use settings::Settings;
pub use state::{LayerState, SeqState, Snapshot, StateSpec};
pub use table::{F32Op, KernelId, KernelOp, KernelTable};
pub use tier::{CpuTier, TierChoice, TierError, TierGap, TierReason, TierStatus};
pub use weights::{ByteSource, Matrix, MatrixShape, pack_all};
