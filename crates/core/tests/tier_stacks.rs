//! Stacks of matrices: each matrix of a stack gives the bits that it gives alone, whoever chooses it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cera_core::graph::{Graph, GraphBuilder, MatrixInfo};
use cera_core::{Matrix, Program, ProgramOptions, Runtime, SeqStep, Want};
use cera_quant::Format;
use cera_quant::kv::KvType;
use cera_quant::ops::{Routing, Scores};
use cera_testkit::rng::Rng;
use cera_testkit::weights::{Kind, rows};

const TOKENS: usize = 21;
const STACK: usize = 3;
/// Not whole strips, so that every matrix of a stack has padding of its own.
const M: usize = 37;
const K: usize = 256;

fn values(name: &str, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(name.bytes().map(u64::from).sum());
    (0..len).flat_map(|_| rng.normal().to_le_bytes()).collect()
}

/// The weights of a graph: those called `stack` are the rows of `stack`, others have random values.
fn program(graph: Graph, stack: &[u8], repack: bool) -> Program {
    let weight = |info: &MatrixInfo| {
        let rows = info.stack * info.m;
        let row = info.format.row_bytes(info.k).unwrap();
        let bytes = match info.name.as_str() {
            "stack" => stack[info.first_row * row..][..rows * row].to_vec(),
            name => values(name, rows * info.k),
        };
        let len = bytes.len();
        let plain = Matrix::plain(info.format, (rows, info.k), Arc::new(bytes), 0..len).unwrap();
        let plain = plain.stacked(info.stack).unwrap();
        if repack && info.matmul { plain.packed().unwrap() } else { plain }
    };
    let weights = graph.matrices().iter().map(weight).collect();
    Program::new(graph, weights, Runtime::from_env().unwrap(), ProgramOptions::default()).unwrap()
}

/// What the value of that name is for all tokens.
fn tapped(program: &Program, name: &str) -> Vec<u32> {
    let tokens: Vec<u32> = (0..TOKENS as u32).collect();
    let value = program.graph().find(name).unwrap();
    let mut state = program.new_state(KvType::F32, TOKENS);
    let mut bits = Vec::new();
    let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::None }];
    let mut tap = |_, rows: &[f32]| bits.extend(rows.iter().map(|x| x.to_bits()));
    program.step_with_taps(steps, &[value], &mut tap).unwrap();
    bits
}

/// A graph that ends with a row of logits for form's sake.
fn finish(mut g: GraphBuilder, x: cera_core::graph::ValueId) -> Graph {
    let rows = g.select_outputs("rows", x).unwrap();
    g.finish(rows).unwrap()
}

/// The products of one matrix by itself.
fn alone(format: Format, member: usize, width: usize) -> Graph {
    let mut g = GraphBuilder::new();
    let table = g.matrix(if width == K { "table" } else { "wide" }, Format::F32, TOKENS, width);
    let x = g.embed("x", table);
    let x = match width {
        K => x,
        _ => {
            let part = cera_core::graph::Columns { first: member * K, len: K, stride: K, count: 1 };
            g.columns("part", x, part).unwrap()
        }
    };
    let weight = g.matrix_rows("stack", format, member * M..(member + 1) * M, K);
    let y = g.linear("y", x, weight, None).unwrap();
    finish(g, y)
}

/// Every token chooses every expert, so that the slots are the tokens of one expert after those of the other.
fn experts(format: Format) -> Graph {
    let mut g = GraphBuilder::new();
    let table = g.matrix("table", Format::F32, TOKENS, K);
    let x = g.embed("x", table);
    let router = g.matrix("router", Format::F32, STACK, K);
    let logits = g.linear("logits", x, router, None).unwrap();
    let routing =
        Routing { scores: Scores::Softmax, chosen: STACK, groups: None, renormalise: None, scale: 1.0 };
    let route = g.route("route", logits, (routing, None)).unwrap();
    let weight = g.matrix_stack("stack", format, STACK, (M, K));
    let y = g.expert_linear("y", x, (weight, None), route).unwrap();
    let sum = g.combine("sum", y, route).unwrap();
    finish(g, sum)
}

/// Every head has a matrix of its own.
fn heads(format: Format) -> Graph {
    let mut g = GraphBuilder::new();
    let table = g.matrix("wide", Format::F32, TOKENS, STACK * K);
    let x = g.embed("x", table);
    let weight = g.matrix_stack("stack", format, STACK, (M, K));
    let y = g.head_linear("y", x, weight).unwrap();
    finish(g, y)
}

#[test]
fn matrices_of_a_stack_give_the_bits_that_they_give_alone() {
    let mut rng = Rng::new(8);
    for format in Format::ALL {
        let stack = rows(format, (STACK * M, K), Kind::Sane, &mut rng);
        for repack in [true, false] {
            let slots = tapped(&program(experts(format), &stack, repack), "y");
            let joined = tapped(&program(heads(format), &stack, repack), "y");
            for member in 0..STACK {
                let what = format!("{format} {member}, packed {repack}");
                let expected = tapped(&program(alone(format, member, K), &stack, true), "y");
                assert!(slots[member * TOKENS * M..][..TOKENS * M] == expected, "expert {what}");
                let expected = tapped(&program(alone(format, member, STACK * K), &stack, true), "y");
                let of_head: Vec<u32> =
                    joined.chunks_exact(STACK * M).flat_map(|row| row[member * M..][..M].to_vec()).collect();
                assert!(of_head == expected, "head {what}");
            }
        }
    }
}
