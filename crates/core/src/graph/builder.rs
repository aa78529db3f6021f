//! Building a graph, with every shape checked.

use std::ops::Range;

use cera_quant::Format;
use cera_quant::kv::KvShape;
use cera_quant::num::LANES;
use cera_quant::ops::{Activation, ConvForm, DeltaRule, Pointwise, Routing, StateSpace};

use super::{
    AttentionInfo, Columns, ConvInfo, DeltaInfo, Graph, MatrixId, MatrixInfo, Node, Op, RopeId, RopeInfo,
    RouteId, RouteInfo, Rows, StateId, StateSpaceInfo, ValueId, ValueInfo, VectorId,
};
use crate::error::Error;
use crate::state::{LayerState, StateSpec};

/// Builds a [`Graph`] op by op. Names of values are given per op and prefixed by the current scope.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    scope: String,
    nodes: Vec<Node>,
    values: Vec<ValueInfo>,
    matrices: Vec<MatrixInfo>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<RopeInfo>,
    routes: Vec<RouteInfo>,
    state: StateSpec,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Prefixes the names of the values to come, as in `blk.3`; an empty scope adds nothing.
    pub fn scope(&mut self, scope: &str) {
        self.scope = if scope.is_empty() { String::new() } else { format!("{scope}.") };
    }

    /// Declares a weight matrix of `m` rows of `k` elements. Declaring the same name again gives the same matrix.
    pub fn matrix(&mut self, name: &str, format: Format, m: usize, k: usize) -> MatrixId {
        self.matrix_rows(name, format, 0..m, k)
    }

    /// Declares a stack of `stack` weight matrices of `m` rows of `k` elements, which are all rows of the tensor `name`.
    /// Declaring the same name again gives the same matrices.
    pub fn matrix_stack(
        &mut self,
        name: &str,
        format: Format,
        stack: usize,
        (m, k): (usize, usize),
    ) -> MatrixId {
        self.add_matrix(MatrixInfo {
            name: name.to_owned(),
            format,
            first_row: 0,
            stack,
            m,
            k,
            embedding: false,
            matmul: false,
            experts: false,
        })
    }

    /// Declares a weight matrix that is some rows of `k` elements of the tensor `name`. Declaring the same rows again gives
    /// the same matrix.
    pub fn matrix_rows(&mut self, name: &str, format: Format, rows: Range<usize>, k: usize) -> MatrixId {
        self.add_matrix(MatrixInfo {
            name: name.to_owned(),
            format,
            first_row: rows.start,
            stack: 1,
            m: rows.len(),
            k,
            embedding: false,
            matmul: false,
            experts: false,
        })
    }

    fn add_matrix(&mut self, new: MatrixInfo) -> MatrixId {
        let place = |info: &MatrixInfo| (info.first_row, info.stack, info.m);
        let same = |info: &MatrixInfo| info.name == new.name && place(info) == place(&new);
        let known = self.matrices.iter().position(same);
        if known.is_none() {
            self.matrices.push(new);
        }
        MatrixId(known.unwrap_or(self.matrices.len() - 1))
    }

    /// Adds a constant vector.
    pub fn vector(&mut self, data: Vec<f32>) -> VectorId {
        self.vectors.push(data);
        VectorId(self.vectors.len() - 1)
    }

    /// Adds a rotary embedding.
    ///
    /// # Errors
    /// [`Error::Operand`] if it has more pairs than a head, other numbers of pairs for long sequences, or another length
    /// from which sequences are long than other embeddings.
    pub fn rope_frequencies(&mut self, rope: RopeInfo) -> Result<RopeId, Error> {
        let pairs = rope.inv_freq.len();
        if 2 * pairs > rope.head_dim {
            return Err(self.fault("rope", "rotated elements", rope.head_dim, 2 * pairs));
        }
        if let Some(long) = &rope.long {
            self.expect("rope", "frequencies for long sequences", pairs, long.inv_freq.len())?;
            if let Some(other) = self.ropes.iter().find_map(|rope| rope.long.as_ref()) {
                self.expect("rope", "positions of sequences that are not long", other.beyond, long.beyond)?;
            }
        }
        self.ropes.push(rope);
        Ok(RopeId(self.ropes.len() - 1))
    }

    /// Adds a layer with a KV cache, of which tokens see the last `window` positions, themselves included, or all.
    pub fn kv_state(&mut self, shape: KvShape, window: Option<usize>) -> StateId {
        self.add_state(LayerState::Kv { shape, window })
    }

    fn add_state(&mut self, layer: LayerState) -> StateId {
        self.state.layers.push(layer);
        StateId(self.state.layers.len() - 1)
    }

    /// Rows of `table` by token id.
    pub fn embed(&mut self, name: &str, table: MatrixId) -> ValueId {
        self.matrices[table.0].embedding = true;
        let width = self.matrices[table.0].k;
        self.push(name, Op::Embed { table }, Rows::Tokens, width)
    }

    /// RMS normalisation of each row, or of each head of it if there is one weight per element of a head.
    ///
    /// # Errors
    /// [`Error::Operand`] if a row is not a whole number of heads.
    pub fn rms_norm(&mut self, name: &str, x: ValueId, weight: VectorId, eps: f32) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        let weights = self.vectors[weight.0].len();
        if weights == 0 || !width.is_multiple_of(weights) {
            return Err(self.fault(name, "norm weights", width, weights));
        }
        Ok(self.push(name, Op::RmsNorm { x, weight, eps }, rows, width))
    }

    /// `x . weight^T + bias`.
    ///
    /// # Errors
    /// [`Error::Operand`] if the widths do not fit.
    pub fn linear(
        &mut self,
        name: &str,
        x: ValueId,
        weight: MatrixId,
        bias: Option<VectorId>,
    ) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        let (m, k) = (self.matrices[weight.0].m, self.matrices[weight.0].k);
        self.expect(name, "elements per weight row", width, k)?;
        self.expect(name, "matrices of a stack", 1, self.matrices[weight.0].stack)?;
        if let Some(bias) = bias {
            self.expect(name, "biases", m, self.vectors[bias.0].len())?;
        }
        self.matrices[weight.0].matmul = true;
        Ok(self.push(name, Op::Linear { x, weight, bias }, rows, m))
    }

    /// `x . w^T` of every head of `x` with the matrix of `weight`, a stack, that is the head's; one head per matrix.
    ///
    /// # Errors
    /// [`Error::Operand`] if the widths do not fit or `x` has not one row per token.
    pub fn head_linear(&mut self, name: &str, x: ValueId, weight: MatrixId) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        self.expect_tokens(name, rows)?;
        let MatrixInfo { stack, m, k, .. } = self.matrices[weight.0];
        self.expect(name, "elements of all heads", width, stack * k)?;
        self.matrices[weight.0].matmul = true;
        Ok(self.push(name, Op::HeadLinear { x, weight }, rows, stack * m))
    }

    /// Chooses experts for every token ([`cera_quant::ops::route`]): `logits` has one number for each of them, and so has
    /// `bias`, which is added to the scores for the choice alone.
    ///
    /// # Errors
    /// [`Error::Operand`] if the choice is not possible among so many experts, or `logits` has not one row per token.
    pub fn route(
        &mut self,
        name: &str,
        logits: ValueId,
        (routing, bias): (Routing, Option<VectorId>),
    ) -> Result<RouteId, Error> {
        let (rows, experts) = self.shape(logits);
        self.expect_tokens(name, rows)?;
        if !routing.fits(experts) {
            return Err(self.fault(name, "experts to choose", experts, routing.chosen));
        }
        if let Some(bias) = bias {
            self.expect(name, "biases", experts, self.vectors[bias.0].len())?;
        }
        let route = RouteId(self.routes.len());
        let choice = self.push(name, Op::Route { logits, route }, rows, 2 * routing.chosen);
        self.routes.push(RouteInfo { choice, experts, routing, bias });
        Ok(route)
    }

    /// `x . w^T + bias` with the matrix of `weight`, a stack, that each row's expert is: `x` has one row per slot of the
    /// choice, or one per token for all experts chosen for it; `bias` has one element per row of the whole stack.
    ///
    /// # Errors
    /// [`Error::Operand`] if the widths or the numbers of experts do not fit, or `x` has other rows.
    pub fn expert_linear(
        &mut self,
        name: &str,
        x: ValueId,
        (weight, bias): (MatrixId, Option<VectorId>),
        route: RouteId,
    ) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        let slots = Rows::Slots(route);
        let MatrixInfo { stack, m, k, .. } = self.matrices[weight.0];
        self.expect(
            name,
            "operands with a row per token or slot",
            1,
            usize::from(rows == slots || rows == Rows::Tokens),
        )?;
        self.expect(name, "elements per weight row", width, k)?;
        self.expect(name, "experts", self.routes[route.0].experts, stack)?;
        if let Some(bias) = bias {
            self.expect(name, "biases", stack * m, self.vectors[bias.0].len())?;
        }
        self.matrices[weight.0].matmul = true;
        self.matrices[weight.0].experts = true;
        Ok(self.push(name, Op::ExpertLinear { x, weight, bias, route }, slots, m))
    }

    /// For each token the sum of what its experts gave, times their weights, in increasing order of experts.
    ///
    /// # Errors
    /// [`Error::Operand`] if `x` has not one row per slot of the choice.
    pub fn combine(&mut self, name: &str, x: ValueId, route: RouteId) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        self.expect(name, "operands with a row per slot", 1, usize::from(rows == Rows::Slots(route)))?;
        Ok(self.push(name, Op::Combine { x, route }, Rows::Tokens, width))
    }

    /// `acc + factor * x`, with one factor for each row.
    ///
    /// # Errors
    /// [`Error::Operand`] if the shapes do not fit.
    pub fn add_scaled(
        &mut self,
        name: &str,
        (acc, x): (ValueId, ValueId),
        factor: ValueId,
    ) -> Result<ValueId, Error> {
        let (rows, width) = self.same_shape(name, acc, x)?;
        let (factor_rows, factors) = self.shape(factor);
        self.expect(name, "factors of a row", 1, factors)?;
        self.expect(name, "factors with the rows of the operands", 1, usize::from(factor_rows == rows))?;
        Ok(self.push(name, Op::AddScaled { acc, x, factor }, rows, width))
    }

    /// Rotary position embedding of every head of `x`.
    ///
    /// # Errors
    /// [`Error::Operand`] if `x` is not a whole number of heads with one row per token.
    pub fn rope(&mut self, name: &str, x: ValueId, rope: RopeId) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        let head_dim = self.ropes[rope.0].head_dim;
        self.expect(name, "elements past whole heads", 0, width % head_dim.max(1))?;
        self.expect_tokens(name, rows)?;
        Ok(self.push(name, Op::Rope { x, rope }, rows, width))
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
        if shape.out_len() == 0 || shape.k_dim == 0 {
            return Err(self.fault(name, "elements of a head", 1, 0));
        }
        let bytes = shape
            .k_dim
            .checked_mul(shape.out_len())
            .and_then(|len| len.checked_mul(LANES * size_of::<f32>()));
        if bytes.is_none() {
            return Err(self.fault(name, "elements of the state", usize::MAX, shape.k_dim));
        }
        let state = self.add_state(LayerState::Recurrent { len: shape.state_len() });
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
        if shape.out_len() == 0 || shape.state_dim == 0 {
            return Err(self.fault(name, "elements of a head", 1, 0));
        }
        let [a, dt_bias, skip] = vectors;
        let state = self.add_state(LayerState::Recurrent { len: shape.state_len() });
        let info = StateSpaceInfo { shape, a, dt_bias, skip, state };
        Ok(self.push(name, Op::StateSpace { x, dt, info }, Rows::Tokens, shape.out_len()))
    }

    /// Some columns of every row of `x`, side by side.
    ///
    /// # Errors
    /// [`Error::Operand`] if a row has fewer.
    pub fn columns(&mut self, name: &str, x: ValueId, columns: Columns) -> Result<ValueId, Error> {
        self.gather(name, x, [columns, Columns::NONE, Columns::NONE])
    }

    /// Up to three kinds of columns of every row of `x`, one kind after the other.
    ///
    /// # Errors
    /// [`Error::Operand`] if a row has fewer.
    pub fn gather(&mut self, name: &str, x: ValueId, columns: [Columns; 3]) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        for end in columns.iter().map(Columns::end) {
            if end.is_none_or(|end| end > width) {
                return Err(self.fault(name, "columns", width, end.unwrap_or(usize::MAX)));
            }
        }
        let out = columns.iter().map(|columns| columns.count * columns.len).sum();
        Ok(self.push(name, Op::Columns { x, columns }, rows, out))
    }

    /// For each of `heads` heads its elements of `a`, then those of `b`.
    ///
    /// # Errors
    /// [`Error::Operand`] if a row of one of them is not a whole number of heads, or their rows differ.
    pub fn join_heads(
        &mut self,
        name: &str,
        (a, b): (ValueId, ValueId),
        heads: usize,
    ) -> Result<ValueId, Error> {
        let ((rows, width), (rows_b, width_b)) = (self.shape(a), self.shape(b));
        self.expect(name, "second operands with the rows of the first", 1, usize::from(rows == rows_b))?;
        for width in [width, width_b] {
            self.expect(
                name,
                "elements past whole heads",
                0,
                width.checked_rem(heads).filter(|_| width > 0).unwrap_or(1),
            )?;
        }
        Ok(self.push(name, Op::JoinHeads { a, b, heads }, rows, width + width_b))
    }

    /// `activation(gate) * up`.
    ///
    /// # Errors
    /// [`Error::Operand`] if the shapes differ.
    pub fn gated(
        &mut self,
        name: &str,
        (gate, up): (ValueId, ValueId),
        activation: Activation,
    ) -> Result<ValueId, Error> {
        let (rows, width) = self.same_shape(name, gate, up)?;
        Ok(self.push(name, Op::Gated { gate, up, activation }, rows, width))
    }

    /// `factor * x`; `x` itself if the factor is 1.
    pub fn scale(&mut self, name: &str, x: ValueId, factor: f32) -> ValueId {
        if factor == 1.0 { x } else { self.pointwise(name, x, Pointwise::Scale(factor)) }
    }

    /// A function of every element.
    pub fn pointwise(&mut self, name: &str, x: ValueId, function: Pointwise) -> ValueId {
        let (rows, width) = self.shape(x);
        self.push(name, Op::Pointwise { x, function }, rows, width)
    }

    /// `a + b`.
    ///
    /// # Errors
    /// [`Error::Operand`] if the shapes differ.
    pub fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        let (rows, width) = self.same_shape(name, a, b)?;
        Ok(self.push(name, Op::Add { a, b }, rows, width))
    }

    /// The rows of `x` whose logits are wanted.
    ///
    /// # Errors
    /// [`Error::Operand`] if `x` has not one row per token.
    pub fn select_outputs(&mut self, name: &str, x: ValueId) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        self.expect_tokens(name, rows)?;
        Ok(self.push(name, Op::SelectOutputs { x }, Rows::Outputs, width))
    }

    /// The finished graph, whose result is `logits`.
    ///
    /// # Errors
    /// [`Error::Operand`] if `logits` has one row per token rather than per output.
    pub fn finish(self, logits: ValueId) -> Result<Graph, Error> {
        if self.values[logits.0].rows != Rows::Outputs {
            return Err(self.fault("logits", "values with a row per output", 1, 0));
        }
        let GraphBuilder { nodes, values, matrices, vectors, ropes, routes, mut state, .. } = self;
        state.long_beyond = ropes.iter().find_map(|rope| Some(rope.long.as_ref()?.beyond));
        Ok(Graph { nodes, values, matrices, vectors, ropes, routes, state, logits })
    }

    fn push(&mut self, name: &str, op: Op, rows: Rows, width: usize) -> ValueId {
        let out = ValueId(self.values.len());
        self.values.push(ValueInfo { name: format!("{}{name}", self.scope), rows, width });
        self.nodes.push(Node { op, out });
        out
    }

    fn shape(&self, x: ValueId) -> (Rows, usize) {
        (self.values[x.0].rows, self.values[x.0].width)
    }

    fn same_shape(&self, name: &str, a: ValueId, b: ValueId) -> Result<(Rows, usize), Error> {
        let ((rows, width), (rows_b, width_b)) = (self.shape(a), self.shape(b));
        self.expect(name, "elements of the second operand", width, width_b)?;
        self.expect(name, "second operands with the rows of the first", 1, usize::from(rows == rows_b))?;
        Ok((rows, width))
    }

    fn expect_tokens(&self, name: &str, rows: Rows) -> Result<(), Error> {
        self.expect(name, "operands with a row per token", 1, usize::from(rows == Rows::Tokens))
    }

    fn expect(&self, op: &str, what: &'static str, expected: usize, got: usize) -> Result<(), Error> {
        if expected == got { Ok(()) } else { Err(self.fault(op, what, expected, got)) }
    }

    fn fault(&self, op: &str, what: &'static str, expected: usize, got: usize) -> Error {
        Error::Operand { op: format!("{}{op}", self.scope), what, expected, got }
    }
}
