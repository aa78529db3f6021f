//! Building a graph, with every shape checked.

mod experts;
mod sequence;

use std::ops::Range;

use cera_quant::Format;
use cera_quant::ops::{Activation, Pointwise};

use super::{
    Columns, Graph, MatrixId, MatrixInfo, Node, Op, RopeId, RopeInfo, RouteInfo, Rows, StateId, ValueId,
    ValueInfo, VectorId,
};
use crate::error::Error;
use crate::state::{LayerState, StateSpec};
use crate::weights::MatrixShape;

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

    /// Declares a weight matrix that is some rows of `k` elements of the tensor `name`. Declaring the same rows again gives
    /// the same matrix.
    pub fn matrix_rows(&mut self, name: &str, format: Format, rows: Range<usize>, k: usize) -> MatrixId {
        self.add_matrix(name, rows.start, MatrixShape { format, stack: 1, m: rows.len(), k })
    }

    fn add_matrix(&mut self, name: &str, first_row: usize, shape: MatrixShape) -> MatrixId {
        let MatrixShape { format, stack, m, k } = shape;
        let new = MatrixInfo {
            name: name.to_owned(),
            format,
            first_row,
            stack,
            m,
            k,
            embedding: false,
            matmul: false,
            experts: false,
        };
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

    /// Layer normalisation of each row, with one weight and one addend per element.
    ///
    /// # Errors
    /// [`Error::Operand`] if a row has another number of elements.
    pub fn layer_norm(
        &mut self,
        name: &str,
        x: ValueId,
        (weight, bias): (VectorId, VectorId),
        eps: f32,
    ) -> Result<ValueId, Error> {
        let (rows, width) = self.shape(x);
        for (what, vector) in [("norm weights", weight), ("norm biases", bias)] {
            self.expect(name, what, width, self.vectors[vector.0].len())?;
        }
        Ok(self.push(name, Op::LayerNorm { x, weight, bias, eps }, rows, width))
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
        self.expect_rows(name, rows_b, rows)?;
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
        self.expect_rows(name, rows_b, rows)?;
        Ok((rows, width))
    }

    fn expect_tokens(&self, name: &str, rows: Rows) -> Result<(), Error> {
        self.expect_rows(name, rows, Rows::Tokens)
    }

    fn expect_rows(&self, name: &str, rows: Rows, wanted: Rows) -> Result<(), Error> {
        let what = match wanted {
            Rows::Tokens => "operands with a row per token",
            Rows::Outputs => "operands with a row per output",
            Rows::Slots(_) => "operands with a row per slot of the choice",
        };
        self.expect(name, what, 1, usize::from(rows == wanted))
    }

    fn expect(&self, op: &str, what: &'static str, expected: usize, got: usize) -> Result<(), Error> {
        if expected == got { Ok(()) } else { Err(self.fault(op, what, expected, got)) }
    }

    fn fault(&self, op: &str, what: &'static str, expected: usize, got: usize) -> Error {
        Error::Operand { op: format!("{}{op}", self.scope), what, expected, got }
    }
}
