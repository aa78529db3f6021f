//! Mixtures of experts in place of a feed-forward network.

use cera_core::graph::{RouteId, ValueId};
use cera_quant::ops::{Activation, Pointwise, Routing, RoutingGroups, Scores};

use super::Decoder;
use crate::ModelError;
use crate::arch::params::Params;
use crate::arch::source::Source;
use crate::gguf::Value;

/// How an architecture chooses and weighs experts where the file does not say it.
#[derive(Debug, Clone, Copy)]
pub(in crate::arch) struct RoutingDefaults {
    /// What the logits are turned into.
    pub(in crate::arch) scores: Scores,
    /// Whether weights are divided by their sum.
    pub(in crate::arch) normalised: bool,
    /// Added to the sum that they are divided by.
    pub(in crate::arch) eps: f32,
}

/// The experts of a model's layers.
#[derive(Debug, Clone, Copy)]
pub(in crate::arch) struct Experts {
    /// Experts of a layer.
    count: usize,
    /// The width of an expert, if it is not that of the layer's feed-forward network.
    width: Option<usize>,
    /// The width of the expert that every token has, if the file states it.
    shared_width: Option<usize>,
    /// How experts are chosen.
    routing: Routing,
    /// Layers before the first with experts.
    dense_layers: usize,
    /// Whether the expert that every token has must have a gate.
    shared_gate: bool,
}

impl Experts {
    /// Reads them; `None` for a model without experts.
    pub(in crate::arch) fn read(
        source: &Source<'_>,
        defaults: RoutingDefaults,
    ) -> Result<Option<Experts>, ModelError> {
        let meta = source.meta();
        let count = meta.u32_or("{arch}.expert_count", 0)? as usize;
        if count == 0 {
            return Ok(None);
        }
        let width = |key: &str| -> Result<Option<usize>, ModelError> {
            let width = meta.u32_opt(key)?.filter(|&width| width != 0);
            Ok(width.map(|width| width as usize))
        };
        let expert_width = width("{arch}.expert_feed_forward_length")?;
        let shared_width = match width("{arch}.expert_shared_feed_forward_length")? {
            Some(width) => Some(width),
            None => {
                let shared = meta.u32_or("{arch}.expert_shared_count", 0)? as usize;
                expert_width.and_then(|width| width.checked_mul(shared)).filter(|&width| width != 0)
            }
        };
        let routing = Experts::read_routing(source, defaults)?;
        if !routing.fits(count) {
            return Err(source.unsupported(format!(
                "a choice of {} among {count} experts (expert_used_count, expert_count, expert_group_count, \
                 expert_group_used_count)",
                routing.chosen
            )));
        }
        let dense_layers = meta.u32_or("{arch}.leading_dense_block_count", 0)? as usize;
        Ok(Some(Experts {
            count,
            width: expert_width,
            shared_width,
            routing,
            dense_layers,
            shared_gate: false,
        }))
    }

    fn read_routing(source: &Source<'_>, defaults: RoutingDefaults) -> Result<Routing, ModelError> {
        const GATING: &str = "{arch}.expert_gating_func";
        let meta = source.meta();
        let scores = match meta.u32_or(GATING, 0)? {
            0 => defaults.scores,
            1 => Scores::Softmax,
            2 => Scores::Sigmoid,
            3 => Scores::ChosenSoftmax,
            other => return Err(meta.wrong(GATING, "1, 2 or 3".to_owned(), &Value::U32(other)).into()),
        };
        let normalised = meta.bool_or("{arch}.expert_weights_norm", defaults.normalised)?;
        // Zero stands for no factor.
        let scale = match meta.f32_opt("{arch}.expert_weights_scale")? {
            None | Some(0.0) => 1.0,
            Some(_) => source.factor("expert_weights_scale")?.unwrap_or(1.0),
        };
        let groups = RoutingGroups {
            count: meta.u32_or("{arch}.expert_group_count", 1)? as usize,
            chosen: meta.u32_or("{arch}.expert_group_used_count", 1)? as usize,
        };
        Ok(Routing {
            scores,
            chosen: meta.nonzero_u32("{arch}.expert_used_count")? as usize,
            groups: (groups.count > 1).then_some(groups),
            renormalise: normalised.then_some(defaults.eps),
            scale,
        })
    }

    /// These, where the expert that every token has is never without a gate.
    pub(in crate::arch) fn with_shared_gate(self) -> Experts {
        Experts { shared_gate: true, ..self }
    }

    /// Whether a layer has experts.
    pub(in crate::arch) fn in_layer(&self, layer: usize) -> bool {
        layer >= self.dense_layers
    }

    fn width(&self, params: &Params, layer: usize) -> usize {
        self.width.unwrap_or(params.feed_forward[layer] as usize)
    }
}

impl Decoder<'_, '_> {
    /// The feed-forward network of the layer, dense or of experts.
    pub(in crate::arch) fn feed_forward_of(
        &mut self,
        x: ValueId,
        experts: Option<&Experts>,
        activation: Activation,
    ) -> Result<ValueId, ModelError> {
        match experts.filter(|experts| experts.in_layer(self.layer)) {
            Some(experts) => self.experts(x, experts, activation),
            None => self.feed_forward(x, activation),
        }
    }

    /// A mixture of experts, and the expert that every token has where the layer has one: its result is added after those of
    /// the chosen ones, times the sigmoid of a gate if it has one.
    ///
    /// Tensors: `ffn_gate_inp` chooses, with `exp_probs_b` for a bias of the choice; `ffn_{gate,up,down}_exps` are stacks;
    /// `ffn_{gate,up,down}_shexp` and `ffn_gate_inp_shexp` are those of the shared expert.
    fn experts(
        &mut self,
        x: ValueId,
        experts: &Experts,
        activation: Activation,
    ) -> Result<ValueId, ModelError> {
        let (hidden, width) = (self.params.hidden, experts.width(self.params, self.layer));
        let logits = self.linear("ffn_gate_inp", x, (experts.count, hidden))?;
        let shared = self.shared_gate_and_up(x, experts)?;
        let bias = self.tensor("exp_probs_b", "bias");
        let bias = self.source.vector_opt(&mut self.g, &bias, 0..experts.count, experts.count)?;
        let route = self.g.route("ffn_moe", logits, (experts.routing, bias))?;
        let gate = self.expert_linear("ffn_gate_exps", x, (experts.count, width, hidden), route)?;
        let up = self.expert_linear("ffn_up_exps", x, (experts.count, width, hidden), route)?;
        let act = self.g.gated("ffn_act_exps", (gate, up), activation)?;
        let down = self.expert_linear("ffn_down_exps", act, (experts.count, hidden, width), route)?;
        let y = self.g.combine("ffn_combined", down, route)?;
        let Some(Shared { gate, up, width, weight }) = shared else { return Ok(y) };
        let act = self.g.gated("ffn_act_shexp", (gate, up), activation)?;
        let z = self.linear("ffn_down_shexp", act, (hidden, width))?;
        match weight {
            Some(weight) => {
                let weight = self.g.pointwise("ffn_weight_shexp", weight, Pointwise::Sigmoid);
                Ok(self.g.add_scaled("ffn_with_shexp", (y, z), weight)?)
            }
            None => Ok(self.g.add("ffn_with_shexp", y, z)?),
        }
    }

    /// The first products of the shared expert, if the layer has one: beside the choice, as all read the same.
    fn shared_gate_and_up(&mut self, x: ValueId, experts: &Experts) -> Result<Option<Shared>, ModelError> {
        if !["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"].iter().any(|name| self.has(name)) {
            return Ok(None);
        }
        let hidden = self.params.hidden;
        let width = experts.shared_width.unwrap_or(experts.width(self.params, self.layer));
        let gate = self.linear("ffn_gate_shexp", x, (width, hidden))?;
        let up = self.linear("ffn_up_shexp", x, (width, hidden))?;
        let weight = match experts.shared_gate || self.has("ffn_gate_inp_shexp") {
            true => Some(self.linear("ffn_gate_inp_shexp", x, (1, hidden))?),
            false => None,
        };
        Ok(Some(Shared { gate, up, width, weight }))
    }

    /// `x` times the matrix of the stack `name` that each row's expert is: `count` matrices of `m` rows of `k` elements.
    fn expert_linear(
        &mut self,
        name: &str,
        x: ValueId,
        (count, m, k): (usize, usize, usize),
        route: RouteId,
    ) -> Result<ValueId, ModelError> {
        let (weight, bias) = (self.tensor(name, "weight"), self.tensor(name, "bias"));
        let weight = self.source.matrix_stack(&mut self.g, &weight, (count, m, k))?;
        let bias = match self.source.has(&bias) {
            true => Some(self.g.vector(self.source.table(&bias, (count, m))?)),
            false => None,
        };
        Ok(self.g.expert_linear(name, x, (weight, bias), route)?)
    }
}

/// What is there of a shared expert beside the choice.
struct Shared {
    gate: ValueId,
    up: ValueId,
    width: usize,
    weight: Option<ValueId>,
}
