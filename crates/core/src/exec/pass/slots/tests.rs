//! Slots against a plain search.

use super::*;

#[test]
fn slots_are_by_expert_and_by_token() {
    // Three tokens with two experts of five each: the weights are beside the point.
    let choice = [1.0, 4.0, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5, 1.0, 2.0, 0.5, 0.5];
    let slots = Slots::new(&choice, (2, 5), |n| n.min(2));
    let group = |member, rows| Group { member, rows };
    assert_eq!(slots.experts, [group(0, 0..1), group(1, 1..4), group(2, 4..5), group(4, 5..6)]);
    assert_eq!(slots.tokens, [1, 0, 1, 2, 2, 0]);
    assert_eq!((0..3).map(|t| slots.of_token(t, 2).to_vec()).collect::<Vec<_>>(), [[1, 5], [0, 2], [3, 4]]);
    assert_eq!(slots.tiles, [0..1, 1..3, 3..4, 4..5, 5..6]);
    assert!((0..6).all(|slot| slots.of_token(slots.token(slot), 2).contains(&slot)));
}

#[test]
fn all_tokens_may_choose_the_same_experts() {
    let choice: Vec<f32> = (0..40).flat_map(|_| [3.0, 7.0, 0.5, 0.5]).collect();
    let slots = Slots::new(&choice, (2, 8), |n| n.min(16));
    assert_eq!(slots.experts.iter().map(|group| group.member).collect::<Vec<_>>(), [3, 7]);
    assert!(slots.tokens.iter().copied().eq((0..40).chain(0..40)));
    assert_eq!(slots.tiles, [0..16, 16..32, 32..40, 40..56, 56..72, 72..80]);
}
