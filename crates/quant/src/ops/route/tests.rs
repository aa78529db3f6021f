use cera_testkit::fixtures::Fixture;

use super::*;
use crate::scalar::ops as scalar;

fn routing(scores: Scores, chosen: usize) -> Routing {
    Routing { scores, chosen, groups: None, renormalise: None, scale: 1.0 }
}

/// The experts chosen and their weights.
fn run(routing: Routing, logits: &[f32], bias: Option<&[f32]>) -> (Vec<usize>, Vec<f32>) {
    let mut out = vec![f32::NAN; 2 * routing.chosen];
    scalar::route(&mut RouteArgs { routing, logits, bias, out: &mut out, scratch: &mut RouteScratch::new() });
    let (ids, weights) = out.split_at(routing.chosen);
    (ids.iter().map(|&id| id as usize).collect(), weights.to_vec())
}

#[test]
fn choices_agree_with_the_fixtures() {
    let fixture = Fixture::open("ops/ops.safetensors");
    let mut cases = 0;
    for case in fixture.cases("route_") {
        let (logits, ids) = (fixture.f32(&format!("{case}.logits")), fixture.i32(&format!("{case}.ids")));
        let weights = fixture.f32(&format!("{case}.weights"));
        let bias = fixture.has(&format!("{case}.bias")).then(|| fixture.f32(&format!("{case}.bias")).data);
        let chosen = ids.row_len();
        let routing = match case {
            _ if case.starts_with("route_sigmoid_bias") => {
                Routing { renormalise: Some(1e-6), ..routing(Scores::Sigmoid, chosen) }
            }
            _ if case.ends_with("_renorm") => {
                Routing { renormalise: Some(0.0), ..routing(Scores::Softmax, chosen) }
            }
            _ if case.starts_with("route_softmax") => routing(Scores::Softmax, chosen),
            _ => routing(Scores::ChosenSoftmax, chosen),
        };
        for (token, logits) in logits.rows().enumerate() {
            let mut expected: Vec<(usize, f32)> = ids
                .row(token)
                .iter()
                .map(|&id| id as usize)
                .zip(weights.row(token).iter().copied())
                .collect();
            expected.sort_by_key(|&(id, _)| id);
            let (ids, weights) = run(routing, logits, bias.as_deref());
            assert!(ids.iter().eq(expected.iter().map(|(id, _)| id)), "{case} {token}: {ids:?}");
            for (got, (_, want)) in weights.iter().zip(&expected) {
                assert!((got - want).abs() <= 2e-6 * want.abs() + 2e-6, "{case} {token}: {got} {want}");
            }
        }
        cases += 1;
    }
    assert_eq!(cases, 12);
}

#[test]
fn the_softmax_agrees_with_the_fixture() {
    let fixture = Fixture::open("ops/ops.safetensors");
    let (x, expected) = (fixture.f32("softmax.x"), fixture.f32("softmax.out"));
    for (row, (x, expected)) in x.rows().zip(expected.rows()).enumerate() {
        let (_, weights) = run(routing(Scores::Softmax, x.len()), x, None);
        for (got, want) in weights.iter().zip(expected) {
            assert!((got - want).abs() <= 2e-6 * want.abs() + 2e-6, "row {row}: {got} {want}");
        }
    }
}

#[test]
fn of_equals_the_first_experts_are_chosen() {
    let logits = [1.0, 2.0, 2.0, 2.0, 0.0, -0.0, 0.0];
    assert_eq!(run(routing(Scores::Softmax, 2), &logits, None).0, [1, 2]);
    assert_eq!(run(routing(Scores::ChosenSoftmax, 6), &logits, None).0, [0, 1, 2, 3, 4, 5]);
    assert_eq!(run(routing(Scores::Sigmoid, 1), &[0.0; 300], None).0, [0]);
}

#[test]
fn a_bias_chooses_but_does_not_weigh() {
    let (logits, bias) = ([0.0, 1.0, 2.0], [5.0, 0.0, 0.0]);
    let (ids, weights) = run(routing(Scores::Sigmoid, 1), &logits, Some(&bias));
    assert_eq!((ids, weights), (vec![0], vec![0.5]));
}

#[test]
fn groups_limit_the_choice() {
    // The best expert is in a group whose two best are worse than those of the others.
    let logits = [3.0, -9.0, -9.0, 2.0, 2.0, -9.0, 1.0, 2.5, 0.0];
    let groups = |chosen| Some(RoutingGroups { count: 3, chosen });
    let with = |chosen| Routing { groups: groups(chosen), ..routing(Scores::ChosenSoftmax, 2) };
    assert_eq!(run(with(1), &logits, None).0, [3, 4]);
    assert_eq!(run(with(2), &logits, None).0, [3, 7]);
    assert_eq!(run(with(3), &logits, None).0, [0, 7]);
}

#[test]
fn weights_are_divided_by_their_sum_and_scaled() {
    let routing = Routing { renormalise: Some(0.0), scale: 2.5, ..routing(Scores::Sigmoid, 2) };
    let (_, weights) = run(routing, &[0.0, 0.0, -50.0], None);
    assert_eq!(weights, [1.25, 1.25]);
}

#[test]
fn impossible_choices_are_known() {
    let fits = |chosen, groups, experts| Routing { groups, ..routing(Scores::Softmax, chosen) }.fits(experts);
    let groups = |count, chosen| Some(RoutingGroups { count, chosen });
    assert!(fits(8, None, 8) && fits(2, groups(4, 1), 8) && fits(8, groups(4, 4), 8));
    assert!(!fits(0, None, 8) && !fits(9, None, 8) && !fits(1, None, 0));
    assert!(!fits(3, groups(4, 1), 8) && !fits(1, groups(3, 1), 8));
    assert!(!fits(1, groups(0, 0), 8) && !fits(1, groups(4, 0), 8) && !fits(1, groups(4, 5), 8));
}

#[test]
fn numbers_that_are_none_choose_as_many_experts() {
    for logits in [[f32::NAN; 20], [f32::INFINITY; 20], [f32::NEG_INFINITY; 20]] {
        for scores in [Scores::Softmax, Scores::Sigmoid, Scores::ChosenSoftmax] {
            let (ids, _) = run(routing(scores, 3), &logits, None);
            assert!(ids.is_sorted_by(|a, b| a < b) && ids[2] < 20, "{ids:?}");
        }
    }
}
