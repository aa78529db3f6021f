//! Ops with a state: what a sequence remembers of its tokens.

use cera_quant::kv::KvShape;
use cera_quant::num::LANES;
use cera_quant::ops::{ConvForm, DeltaRule, HeadScan, StateSpace};

use super::GraphBuilder;
use crate::error::Error;
use crate::graph::{
    AttentionInfo, ConvInfo, DeltaInfo, Op, Rows, StateId, StateSpaceInfo, ValueId, VectorId,
};
use crate::state::LayerState;

impl GraphBuilder {
    /// Adds a layer with a KV cache, of which tokens see the last `window` positions, themselves included, or all.
    pub fn kv_state(&mut self, shape: KvShape, window: Option<usize>) -> StateId {
        self.add_state(LayerState::Kv { shape, window })
    }

    /// Appends `k` and `v` to the layer's state, then attends with every head of `q`.
    ///
    /// # Errors
    /// [`Error::Operand`] if the widths do not fit the layer's heads.
    pub fn attention(
        &mut self,
        name: &str,
        (q, k, v): (ValueId, ValueId, ValueId),
        info: AttentionInfo,
    ) -> Result<ValueId, Error> {
        let LayerState::Kv { shape, .. } = self.state.layers[info.state.0] else {
            return Err(self.fault(name, "states of keys and values", 1, 0));
        };
        let (rows, width) = self.shape(q);
        for operand in [q, k, v] {
            self.expect_tokens(name, self.shape(operand).0)?;
        }
        self.expect(name, "elements of keys", shape.heads * shape.k_dim, self.shape(k).1)?;
        self.expect(name, "elements of values", shape.heads * shape.v_dim, self.shape(v).1)?;
        let group = (shape.heads * shape.k_dim).max(1);
        self.expect(name, "query elements past whole groups of KV heads", 0, width % group)?;
        let heads = width / shape.k_dim.max(1);
        if let Some(sinks) = info.sinks {
            self.expect(name, "sinks", heads, self.vectors[sinks.0].len())?;
        }
        let out = heads * shape.v_dim;
        Ok(self.push(name, Op::Attention { q, k, v, info }, rows, out))
    }

    /// The convolution over tokens ([`cera_quant::ops::conv`]) with its state: `weight` is `[taps, channels]`, `x` has for
    /// each token what `form` asks for.
    ///
    /// # Errors
    /// [`Error::Operand`] if `x` has not one row per token, or the lengths do not fit.
    pub fn conv(
        &mut self,
        name: &str,
        x: ValueId,
        (weight, bias): (VectorId, Option<VectorId>),
        form: ConvForm,
    ) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        self.expect_tokens(name, rows)?;
        self.expect(name, "elements past whole channels", 0, width % form.parts())?;
        let (channels, weights) = (width / form.parts(), self.vectors[weight.0].len());
        if channels == 0 || weights == 0 || !weights.is_multiple_of(channels) {
            return Err(self.fault(name, "weights of taps", channels, weights));
        }
        if let Some(bias) = bias {
            self.expect(name, "biases", channels, self.vectors[bias.0].len())?;
        }
        let state = self.add_state(LayerState::Recurrent { len: weights - channels });
        let info = ConvInfo { form, weight, bias, state };
        Ok(self.push(name, Op::Conv { x, info }, rows, channels))
    }

    /// The gated delta rule ([`cera_quant::ops::delta_rule`]) with its state. `vectors` are the factors of the decays of the
    /// heads of values, and what is added to `a`.
    ///
    /// # Errors
    /// [`Error::Operand`] if an operand has not one row per token, or the widths do not fit the heads.
    pub fn delta_rule(
        &mut self,
        name: &str,
        (qkv, a, b): (ValueId, ValueId, ValueId),
        rule: DeltaRule,
        (a_scale, a_bias): (VectorId, VectorId),
    ) -> Result<ValueId, Error> {
        let shape = rule.shape;
        let past = shape.v_heads.checked_rem(shape.k_heads);
        self.expect(name, "heads of values past whole groups of key heads", 0, past.unwrap_or(1))?;
        for (operand, width) in [(qkv, shape.row_len()), (a, shape.v_heads), (b, shape.v_heads)] {
            self.expect_tokens(name, self.shape(operand).0)?;
            self.expect(name, "elements of an operand", width, self.shape(operand).1)?;
        }
        for vector in [a_scale, a_bias] {
            self.expect(name, "elements per head of values", shape.v_heads, self.vectors[vector.0].len())?;
        }
        let state = self.scan_state(name, &shape)?;
        let info = DeltaInfo { rule, a_scale, a_bias, state };
        Ok(self.push(name, Op::DeltaRule { qkv, a, b, info }, Rows::Tokens, shape.out_len()))
    }

    /// The selective state space scan ([`cera_quant::ops::state_space`]) with its state. `vectors` are for each head the factor
    /// of its decay, what is added to its time step, and the factor of what skips its state.
    ///
    /// # Errors
    /// [`Error::Operand`] if an operand has not one row per token, or the widths do not fit the heads.
    pub fn state_space(
        &mut self,
        name: &str,
        (x, dt): (ValueId, ValueId),
        shape: StateSpace,
        vectors: [VectorId; 3],
    ) -> Result<ValueId, Error> {
        let past = shape.heads.checked_rem(shape.groups);
        self.expect(name, "heads past whole groups", 0, past.unwrap_or(1))?;
        for (operand, width) in [(x, shape.row_len()), (dt, shape.heads)] {
            self.expect_tokens(name, self.shape(operand).0)?;
            self.expect(name, "elements of an operand", width, self.shape(operand).1)?;
        }
        for vector in vectors {
            self.expect(name, "elements per head", shape.heads, self.vectors[vector.0].len())?;
        }
        let state = self.scan_state(name, &shape)?;
        let [a, dt_bias, skip] = vectors;
        let info = StateSpaceInfo { shape, a, dt_bias, skip, state };
        Ok(self.push(name, Op::StateSpace { x, dt, info }, Rows::Tokens, shape.out_len()))
    }

    /// Adds the state of a recurrence, which must have elements, and as many as memory can.
    fn scan_state(&mut self, name: &str, shape: &impl HeadScan) -> Result<StateId, Error> {
        let bytes = shape
            .depth()
            .checked_mul(shape.out_len())
            .and_then(|len| len.checked_mul(LANES * size_of::<f32>()));
        match bytes {
            Some(1..) => Ok(self.add_state(LayerState::Recurrent { len: shape.state_len() })),
            Some(0) => Err(self.fault(name, "elements of a head", 1, 0)),
            None => Err(self.fault(name, "elements of the state", usize::MAX, shape.depth())),
        }
    }
}
