//! Tiers, probe, kernel tables, runtime, op graph, planner and executor.

mod backends;
mod features;
pub mod probe;
mod report;
pub mod settings;
mod tier;
pub mod width;

pub use features::{CpuFeature, CpuFeatures};
pub use report::TiersReport;
pub use settings::Settings;
pub use tier::{CpuTier, TierChoice, TierError, TierGap, TierReason, TierStatus};
