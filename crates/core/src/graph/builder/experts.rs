//! Stacks of matrices: experts, and heads with matrices of their own.

use cera_quant::Format;
use cera_quant::ops::Routing;

use super::GraphBuilder;
use crate::error::Error;
use crate::graph::{MatrixId, MatrixInfo, Op, RouteId, RouteInfo, Rows, ValueId, VectorId};
use crate::weights::MatrixShape;

impl GraphBuilder {
    /// Declares a stack of `stack` weight matrices of `m` rows of `k` elements, which are all rows of the tensor `name`.
    /// Declaring the same name again gives the same matrices.
    pub fn matrix_stack(
        &mut self,
        name: &str,
        format: Format,
        stack: usize,
        (m, k): (usize, usize),
    ) -> MatrixId {
        self.add_matrix(name, 0, MatrixShape { format, stack, m, k })
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
        if rows != Rows::Tokens {
            self.expect_rows(name, rows, slots)?;
        }
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
        self.expect_rows(name, rows, Rows::Slots(route))?;
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
        self.same_shape(name, acc, x)?;
        self.add_or_scale(name, Some(acc), (x, factor))
    }

    /// `factor * x`, with one factor for each row: the gate of a token's result, for example.
    ///
    /// # Errors
    /// [`Error::Operand`] if the shapes do not fit.
    pub fn scale_rows(&mut self, name: &str, x: ValueId, factor: ValueId) -> Result<ValueId, Error> {
        self.add_or_scale(name, None, (x, factor))
    }

    fn add_or_scale(
        &mut self,
        name: &str,
        acc: Option<ValueId>,
        (x, factor): (ValueId, ValueId),
    ) -> Result<ValueId, Error> {
        let ((rows, width), (factor_rows, factors)) = (self.shape(x), self.shape(factor));
        self.expect(name, "factors of a row", 1, factors)?;
        self.expect_rows(name, factor_rows, rows)?;
        Ok(self.push(name, Op::AddScaled { acc, x, factor }, rows, width))
    }
}
