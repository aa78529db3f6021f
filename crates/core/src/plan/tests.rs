use cera_quant::Format;
use cera_quant::kv::KvShape;
use cera_quant::ops::{Activation, ConvForm, Pointwise, RopePairs, Routing, Scores};

use super::*;
use crate::graph::{GraphBuilder, RopeInfo};

/// A small transformer layer with an output head, matrices in the given formats.
fn layer(formats: [Format; 3]) -> Graph {
    let (width, heads, dim) = (256, 4, 64);
    let mut g = GraphBuilder::new();
    let embedding = g.matrix("embedding", Format::F16, 300, width);
    let ones = g.vector(vec![1.0; width]);
    let rope = RopeInfo::new(vec![0.1; dim / 2], RopePairs::Half, dim);
    let rope = g.rope_frequencies(rope).unwrap();
    let x = g.embed("x", embedding);
    let h = g.rms_norm("norm", x, ones, 1e-5).unwrap();
    let mut qkv = Vec::new();
    for (name, format) in ["q", "k", "v"].into_iter().zip(formats) {
        let weight = g.matrix(name, format, width, width);
        qkv.push(g.linear(name, h, weight, None).unwrap());
    }
    let q = g.rope("q_rope", qkv[0], rope).unwrap();
    let k = g.rope("k_rope", qkv[1], rope).unwrap();
    let state = g.kv_state(KvShape { heads, k_dim: dim, v_dim: dim }, None);
    let info = AttentionInfo { state, scale: 0.125, soft_cap: None, sinks: None };
    let context = g.attention("attention", (q, k, qkv[2]), info).unwrap();
    let out = g.matrix("out", formats[0], width, width);
    let y = g.linear("out", context, out, None).unwrap();
    let x = g.add("residual", x, y).unwrap();
    let h = g.rms_norm("norm_2", x, ones, 1e-5).unwrap();
    let (gate, up) = (g.matrix("gate", formats[0], 512, width), g.matrix("up", formats[0], 512, width));
    let (gate, up) = (g.linear("gate", h, gate, None).unwrap(), g.linear("up", h, up, None).unwrap());
    let act = g.gated("act", (gate, up), Activation::Silu).unwrap();
    let down = g.matrix("down", formats[0], width, 512);
    let y = g.linear("down", act, down, None).unwrap();
    let x = g.add("residual_2", x, y).unwrap();
    let x = g.select_outputs("rows", x).unwrap();
    let x = g.rms_norm("norm_3", x, ones, 1e-5).unwrap();
    let logits = g.linear("logits", x, embedding, None).unwrap();
    g.finish(logits).unwrap()
}

/// A mixture of `experts` experts, of which each token has `chosen`, with a shared one.
fn mixture(experts: usize, chosen: usize) -> Graph {
    let width = 64;
    let mut g = GraphBuilder::new();
    let table = g.matrix("table", Format::F32, 10, width);
    let x = g.embed("x", table);
    let [router, shared] = ["router", "shared"].map(|name| g.matrix(name, Format::F32, experts, width));
    let logits = g.linear("logits", x, router, None).unwrap();
    let gates = g.linear("gates", x, shared, None).unwrap();
    let routing = Routing { scores: Scores::Softmax, chosen, groups: None, renormalise: None, scale: 1.0 };
    let route = g.route("route", logits, (routing, None)).unwrap();
    let stack = |g: &mut GraphBuilder, name: &str, m, k| g.matrix_stack(name, Format::Q4_0, experts, (m, k));
    let [gate, up] = ["gate", "up"].map(|name| {
        let weight = stack(&mut g, name, 32, width);
        g.expert_linear(name, x, (weight, None), route).unwrap()
    });
    let act = g.gated("act", (gate, up), Activation::Silu).unwrap();
    let down = stack(&mut g, "down", width, 32);
    let down = g.expert_linear("down", act, (down, None), route).unwrap();
    let y = g.combine("y", down, route).unwrap();
    let one = g.matrix("one", Format::F32, 1, experts);
    let factor = g.linear("factor", gates, one, None).unwrap();
    let factor = g.pointwise("sigmoid", factor, Pointwise::Sigmoid);
    let y = g.add_scaled("scaled", (y, x), factor).unwrap();
    let rows = g.select_outputs("rows", y).unwrap();
    g.finish(rows).unwrap()
}

fn value(graph: &Graph, name: &str) -> usize {
    graph.find(name).unwrap().0
}

/// One letter per op of a phase.
fn shape(phase: &Phase) -> String {
    match phase {
        Phase::Local(ops) => ops
            .iter()
            .map(|op| match op {
                Local::Embed { .. } => 'E',
                Local::RmsNorm { .. } => 'N',
                Local::LayerNorm { .. } => 'L',
                Local::Quantize { .. } => 'Q',
                Local::Rope { .. } => 'R',
                Local::Append { .. } => 'K',
                Local::Gated { .. } => 'G',
                Local::Pointwise { .. } => 'P',
                Local::Conv { .. } => 'C',
                Local::Columns { .. } => 'c',
                Local::JoinHeads { .. } => 'j',
                Local::Add { .. } => '+',
                Local::Select { .. } => 'S',
                Local::AddScaled { .. } => '*',
                Local::Route { .. } => 'W',
                Local::Combine { .. } => 'm',
            })
            .collect(),
        Phase::Products(products) => "x".repeat(products.len()),
        Phase::Attention { .. } => "A".to_owned(),
        Phase::Fetch { .. } => "F".to_owned(),
        Phase::Scan { .. } => "D".to_owned(),
    }
}

fn shapes(plan: &Plan) -> Vec<String> {
    plan.phases.iter().map(shape).collect()
}

#[test]
fn neighbouring_ops_fuse() {
    let plan = Plan::new(&layer([Format::Q4_K; 3]), true);
    let expected = ["ENQ", "xxx", "RRK", "A", "Q", "x", "+NQ", "xx", "GQ", "x", "+", "SNQ", "x"];
    assert_eq!(shapes(&plan), expected);
}

#[test]
fn experts_are_quantized_and_multiplied_by_slot() {
    let graph = mixture(6, 2);
    let plan = Plan::new(&graph, true);
    let expected = ["EQ", "xx", "W", "F", "Q", "xx", "GQ", "x", "mQ", "x", "P*", "S"];
    assert_eq!(shapes(&plan), expected);
    let of_slots = |p: &Phase| matches!(p.rows(&graph, &plan.acts), Rows::Slots(_));
    assert!((0..plan.phases.len()).all(|i| of_slots(&plan.phases[i]) == (3..8).contains(&i)));
    let place = |name: &str| plan.values[value(&graph, name)];
    assert_eq!((place("gate").rows, place("gate").row), (2, 4 * 32));
    assert_eq!((place("act"), place("y").rows), (place("gate"), 1));
}

#[test]
fn products_of_experts_are_counted_for_those_chosen() {
    let macs = |chosen| mixture(6, chosen).product_macs(10, 0);
    assert_eq!(macs(3) - macs(2), 10 * 3 * 32 * 64);
    let bytes = |chosen| mixture(6, chosen).active_bytes();
    assert_eq!(bytes(3) - bytes(2), 3 * 32 * 64 / 32 * 18);
}

#[test]
fn matrices_of_mixed_formats_share_a_phase_and_quantize_once_per_format() {
    let plan = Plan::new(&layer([Format::Q4_K, Format::Q5_0, Format::Q6_K]), true);
    assert_eq!(shapes(&plan)[..2], ["ENQQ".to_owned(), "xxx".to_owned()]);
    let Phase::Products(products) = &plan.phases[1] else { panic!("no products") };
    let formats: Vec<ActFormat> = products.iter().map(|p| plan.acts[p.acts.0].format).collect();
    assert_eq!(formats, [ActFormat::Q8x256, ActFormat::Q8x32, ActFormat::Q8x256]);
    assert_eq!(products[0].acts, products[2].acts);
}

#[test]
fn without_fusion_every_op_is_a_phase() {
    let plan = Plan::new(&layer([Format::Q8_0; 3]), false);
    assert!(shapes(&plan).iter().all(|shape| shape.len() == 1), "{:?}", shapes(&plan));
    assert_eq!(plan.phases.len(), 25);
}

#[test]
fn residuals_and_gates_are_updated_in_place() {
    let graph = layer([Format::Q8_0; 3]);
    let plan = Plan::new(&graph, true);
    let place = |name: &str| plan.values[value(&graph, name)];
    assert_eq!(place("residual"), place("x"));
    assert_eq!(place("residual_2"), place("residual"));
    assert_eq!(place("act"), place("gate"));
    assert_eq!(place("q_rope"), place("q"));
}

/// The phases in which each value and activation is written or read, found by walking the phases anew.
fn touched(graph: &Graph, plan: &Plan) -> Vec<Vec<usize>> {
    let values = graph.values.len();
    let mut touched = vec![Vec::new(); values + plan.acts.len()];
    for (p, phase) in plan.phases.iter().enumerate() {
        match phase {
            Phase::Local(ops) => {
                for op in ops {
                    op.inputs(&plan.acts).chain(op.out()).for_each(|v| touched[v.0].push(p));
                    if let Local::Quantize { acts } = op {
                        touched[values + acts.0].push(p);
                    }
                }
            }
            Phase::Products(products) => {
                for product in products {
                    touched[values + product.acts.0].push(p);
                    touched[product.out.0].push(p);
                }
            }
            Phase::Fetch { route, .. } => touched[graph.routes[route.0].choice.0].push(p),
            Phase::Attention { q, out, .. } => {
                touched[q.0].push(p);
                touched[out.0].push(p);
            }
            Phase::Scan { scan, out } => scan.inputs().chain([*out]).for_each(|v| touched[v.0].push(p)),
        }
    }
    touched[graph.logits.0].push(plan.phases.len());
    touched
}

#[test]
fn buffers_in_one_slot_are_never_needed_in_one_phase() {
    for fuse in [true, false] {
        let formats = [[Format::Q4_K; 3], [Format::Q4_0, Format::F16, Format::Q6_K], [Format::BF16; 3]];
        for graph in formats.map(layer).into_iter().chain([mixture(6, 2)]) {
            let plan = Plan::new(&graph, fuse);
            let touched = touched(&graph, &plan);
            let places: Vec<Place> = plan.values.iter().chain(&plan.acts_places).copied().collect();
            for a in 0..places.len() {
                assert!(places[a].row * places[a].rows <= plan.slots[places[a].slot]);
                for b in a + 1..places.len() {
                    let (first, last) = (touched[b][0], touched[b][touched[b].len() - 1]);
                    let meet = touched[a][0] <= last && first <= touched[a][touched[a].len() - 1];
                    if places[a].slot != places[b].slot || !meet {
                        continue;
                    }
                    // Only a result in the place of the operand that its op read last.
                    assert_eq!(places[a], places[b], "buffers {a} and {b}");
                    assert_eq!(touched[a][touched[a].len() - 1], first, "buffers {a} and {b}");
                }
            }
        }
    }
}

#[test]
fn an_operand_that_is_read_twice_keeps_its_memory() {
    let mut g = GraphBuilder::new();
    let table = g.matrix("table", Format::F32, 10, 32);
    let x = g.embed("x", table);
    let square = g.matrix("square", Format::F32, 32, 32);
    let y = g.linear("y", x, square, None).unwrap();
    let doubled = g.add("doubled", y, y).unwrap();
    let squared = g.gated("squared", (doubled, doubled), Activation::Silu).unwrap();
    let rows = g.select_outputs("rows", squared).unwrap();
    let graph = g.finish(rows).unwrap();
    let plan = Plan::new(&graph, false);
    let place = |name: &str| plan.values[value(&graph, name)];
    assert_ne!(place("doubled").slot, place("y").slot);
    assert_ne!(place("squared").slot, place("doubled").slot);
}

#[test]
fn memory_is_shared() {
    let graph = layer([Format::Q8_0; 3]);
    let plan = Plan::new(&graph, true);
    let values: usize = graph.values.iter().map(|v| 4 * v.width).sum();
    let logits = 4 * graph.vocabulary();
    assert!(plan.bytes_per_token() < values / 2 + logits, "{} of {values}", plan.bytes_per_token());
}

#[test]
fn what_a_convolution_reads_of_other_tokens_is_not_replaced_in_its_phase() {
    let mut g = GraphBuilder::new();
    let table = g.matrix("table", Format::F32, 10, 96);
    let e = g.embed("e", table);
    let square = g.matrix("square", Format::F32, 96, 96);
    let x = g.linear("x", e, square, None).unwrap();
    let weight = g.vector(vec![1.0; 3 * 32]);
    let y = g.conv("y", x, (weight, None), ConvForm::Gated).unwrap();
    let narrow = g.matrix("narrow", Format::F32, 96, 32);
    let z = g.scale("z", x, 2.0);
    let y = g.linear("wide", y, narrow, None).unwrap();
    let sum = g.add("sum", y, z).unwrap();
    let rows = g.select_outputs("rows", sum).unwrap();
    let graph = g.finish(rows).unwrap();
    let plan = Plan::new(&graph, true);
    let place = |name: &str| plan.values[value(&graph, name)];
    assert_ne!(place("z").slot, place("x").slot, "{:?}", shapes(&plan));
}
