//! The f32 operations of a layer, written once over [`Simd`](crate::num::Simd) for every tier.
//!
//! `docs/numerics.md`, section 4, states their order of operations. Each function is instantiated by
//! [`scalar::ops`](crate::scalar::ops) and by every wider tier.

mod attention;
mod conv;
mod delta_rule;
mod elementwise;
mod norm;
mod rope;
mod route;
mod scan;
mod state_space;

pub use attention::{
    AttentionArgs, AttentionOut, AttentionScratch, CHUNK_KEYS, MergeArgs, Visible, attention, attention_q8_0,
    merge_attention, part_len,
};
pub use conv::{ConvArgs, ConvForm, conv};
pub use delta_rule::{DeltaRule, DeltaRuleArgs, DeltaShape, HeadOrder, QkNorm, delta_rule};
pub use elementwise::{
    Activation, AddArgs, AddScaledArgs, GatedArgs, Pointwise, PointwiseArgs, add, add_scaled, gated,
    pointwise,
};
pub use norm::{LayerNormArgs, RmsNormArgs, layer_norm, rms_norm};
pub use rope::{RopeArgs, RopePairs, rope, rope_table};
pub use route::{RouteArgs, RouteScratch, Routing, RoutingGroups, Scores, route};
pub use scan::{HeadScan, ScanPiece};
pub use state_space::{StateSpace, StateSpaceArgs, state_space};

#[cfg(test)]
mod tests;
