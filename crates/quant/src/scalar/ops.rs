//! The f32 operations on scalar lanes.

use crate::kernels::Ops;
use crate::kv::{self, AppendArgs, Q8Unit};
use crate::num::Scalar;
use crate::ops::{
    self, AddArgs, AddScaledArgs, AttentionArgs, ConvArgs, DeltaRuleArgs, GatedArgs, LayerNormArgs,
    MergeArgs, PointwiseArgs, RmsNormArgs, RopeArgs, RouteArgs, StateSpaceArgs,
};

/// The f32 operations.
pub const OPS: Ops = Ops {
    rms_norm,
    layer_norm,
    add,
    add_scaled,
    route,
    gated,
    pointwise,
    conv,
    delta_rule,
    state_space,
    rope,
    attention_f32,
    attention_f16,
    attention_q8_0,
    merge_attention,
    append_f32,
    append_f16,
    append_q8_0,
};

/// [`ops::rms_norm`] on scalar lanes.
pub fn rms_norm(args: &mut RmsNormArgs<'_>) {
    ops::rms_norm(Scalar, args);
}

/// [`ops::layer_norm`] on scalar lanes.
pub fn layer_norm(args: &mut LayerNormArgs<'_>) {
    ops::layer_norm(Scalar, args);
}

/// [`ops::add`] on scalar lanes.
pub fn add(args: &mut AddArgs<'_>) {
    ops::add(Scalar, args);
}

/// [`ops::add_scaled`] on scalar lanes.
pub fn add_scaled(args: &mut AddScaledArgs<'_>) {
    ops::add_scaled(Scalar, args);
}

/// [`ops::route`] on scalar lanes.
pub fn route(args: &mut RouteArgs<'_>) {
    ops::route(Scalar, args);
}

/// [`ops::gated`] on scalar lanes.
pub fn gated(args: &mut GatedArgs<'_>) {
    ops::gated(Scalar, args);
}

/// [`ops::pointwise`] on scalar lanes.
pub fn pointwise(args: &mut PointwiseArgs<'_>) {
    ops::pointwise(Scalar, args);
}

/// [`ops::conv`] on scalar lanes.
pub fn conv(args: &mut ConvArgs<'_>) {
    ops::conv(Scalar, args);
}

/// [`ops::state_space`] on scalar lanes.
pub fn state_space(args: &mut StateSpaceArgs<'_>) {
    ops::state_space(Scalar, args);
}

/// [`ops::delta_rule`] on scalar lanes.
pub fn delta_rule(args: &mut DeltaRuleArgs<'_>) {
    ops::delta_rule(Scalar, args);
}

/// [`ops::rope`] on scalar lanes.
pub fn rope(args: &mut RopeArgs<'_>) {
    ops::rope(Scalar, args);
}

/// [`ops::attention`] over an f32 cache on scalar lanes.
pub fn attention_f32(args: &mut AttentionArgs<'_, f32>) {
    ops::attention(Scalar, args);
}

/// [`ops::attention`] over an f16 cache on scalar lanes.
pub fn attention_f16(args: &mut AttentionArgs<'_, u16>) {
    ops::attention(Scalar, args);
}

/// [`ops::attention_q8_0`] on scalar lanes.
pub fn attention_q8_0(args: &mut AttentionArgs<'_, Q8Unit>) {
    ops::attention_q8_0(Scalar, args);
}

/// [`ops::merge_attention`] on scalar lanes.
pub fn merge_attention(args: &mut MergeArgs<'_>) {
    ops::merge_attention(Scalar, args);
}

/// [`kv::append`] to an f32 cache on scalar lanes.
///
/// # Safety
/// As [`kv::append`].
pub unsafe fn append_f32(args: &mut AppendArgs<'_, f32>) {
    // SAFETY: the caller's promise.
    unsafe { kv::append(Scalar, args) };
}

/// [`kv::append`] to an f16 cache on scalar lanes.
///
/// # Safety
/// As [`kv::append`].
pub unsafe fn append_f16(args: &mut AppendArgs<'_, u16>) {
    // SAFETY: the caller's promise.
    unsafe { kv::append(Scalar, args) };
}

/// [`kv::append_q8_0`].
///
/// # Safety
/// As [`kv::append_q8_0`].
pub unsafe fn append_q8_0(args: &mut AppendArgs<'_, Q8Unit>) {
    // SAFETY: the caller's promise.
    unsafe { kv::append_q8_0(Scalar, args) };
}
