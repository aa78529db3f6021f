//! The f32 operations of a table.

use cera_quant::kv::{AppendArgs, Q8Unit};
use cera_quant::ops::{
    AddArgs, AddScaledArgs, AttentionArgs, ConvArgs, DeltaRuleArgs, GatedArgs, LayerNormArgs, MergeArgs,
    PointwiseArgs, RmsNormArgs, RopeArgs, RouteArgs, StateSpaceArgs,
};

use super::KernelTable;
use crate::pool::DefaultMode;

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident: $args:ty;)*) => {
        /// The f32 operations. Each panics if the lengths in its arguments do not fit together.
        impl KernelTable {$(
            $(#[$doc])*
            pub fn $name(&self, args: &mut $args) {
                let _mode = DefaultMode::enter();
                // SAFETY: a table exists only for a tier that the machine runs.
                unsafe { (self.ops.$name)(args) }
            }
        )*}
    };
}

ops! {
    /// RMS normalisation: [`cera_quant::ops::rms_norm`].
    rms_norm: RmsNormArgs<'_>;
    /// Layer normalisation: [`cera_quant::ops::layer_norm`].
    layer_norm: LayerNormArgs<'_>;
    /// Element-wise addition: [`cera_quant::ops::add`].
    add: AddArgs<'_>;
    /// Addition of a multiple: [`cera_quant::ops::add_scaled`].
    add_scaled: AddScaledArgs<'_>;
    /// Choosing experts: [`cera_quant::ops::route`].
    route: RouteArgs<'_>;
    /// Activation times factor: [`cera_quant::ops::gated`].
    gated: GatedArgs<'_>;
    /// A function of single elements: [`cera_quant::ops::pointwise`].
    pointwise: PointwiseArgs<'_>;
    /// The convolution over tokens: [`cera_quant::ops::conv`].
    conv: ConvArgs<'_>;
    /// The gated delta rule: [`cera_quant::ops::delta_rule`].
    delta_rule: DeltaRuleArgs<'_>;
    /// The selective state space scan: [`cera_quant::ops::state_space`].
    state_space: StateSpaceArgs<'_>;
    /// Rotary position embedding: [`cera_quant::ops::rope`].
    rope: RopeArgs<'_>;
    /// Attention over an f32 cache: [`cera_quant::ops::attention`].
    attention_f32: AttentionArgs<'_, f32>;
    /// Attention over an f16 cache: [`cera_quant::ops::attention`].
    attention_f16: AttentionArgs<'_, u16>;
    /// Attention over a q8_0 cache: [`cera_quant::ops::attention_q8_0`].
    attention_q8_0: AttentionArgs<'_, Q8Unit>;
    /// Joining parts of attention: [`cera_quant::ops::merge_attention`].
    merge_attention: MergeArgs<'_>;
}

/// Writing to the cache.
impl KernelTable {
    /// Writing to an f32 cache: [`cera_quant::kv::append`].
    ///
    /// # Safety
    /// As [`cera_quant::kv::append`].
    pub unsafe fn append_f32(&self, args: &mut AppendArgs<'_, f32>) {
        let _mode = DefaultMode::enter();
        // SAFETY: a table exists only for a tier that the machine runs; the caller promises the rest.
        unsafe { (self.ops.append_f32)(args) }
    }

    /// Writing to an f16 cache: [`cera_quant::kv::append`].
    ///
    /// # Safety
    /// As [`cera_quant::kv::append`].
    pub unsafe fn append_f16(&self, args: &mut AppendArgs<'_, u16>) {
        let _mode = DefaultMode::enter();
        // SAFETY: as for `append_f32`.
        unsafe { (self.ops.append_f16)(args) }
    }

    /// Writing to a q8_0 cache: [`cera_quant::kv::append_q8_0`].
    ///
    /// # Safety
    /// As [`cera_quant::kv::append_q8_0`].
    pub unsafe fn append_q8_0(&self, args: &mut AppendArgs<'_, Q8Unit>) {
        let _mode = DefaultMode::enter();
        // SAFETY: as for `append_f32`.
        unsafe { (self.ops.append_q8_0)(args) }
    }
}
