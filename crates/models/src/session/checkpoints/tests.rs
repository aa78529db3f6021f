use cera_core::StateSpec;

use super::*;

/// Length and whether a turn ends there, of all.
fn kept(checkpoints: &Checkpoints) -> Vec<(usize, bool)> {
    checkpoints.kept.iter().map(|c| (c.len, c.turn)).collect()
}

/// A checkpoint of a state without layers, of which only the length matters.
fn checkpoint(len: usize, turn: bool, logits: usize) -> Checkpoint {
    let state = SeqState::new(Arc::new(StateSpec::default()), KvType::F16, usize::MAX);
    let logits = (logits > 0).then(|| Arc::new(vec![0.0; logits]));
    Checkpoint { len, ..Checkpoint::new(&state, turn, logits) }
}

fn options(count: usize, bytes: usize) -> CheckpointOptions {
    CheckpointOptions { count, bytes, ..CheckpointOptions::default() }
}

#[test]
fn the_longest_that_logits_can_be_had_from_is_found() {
    let mut all = Checkpoints::default();
    for (len, logits) in [(10, 0), (20, 4), (30, 0)] {
        all.add(checkpoint(len, logits > 0, logits), &options(8, 1 << 20));
    }
    let found = |common, len| all.find(common, len).map(|c| c.len);
    assert_eq!(
        [found(9, 50), found(10, 50), found(29, 50), found(40, 50)],
        [None, Some(10), Some(20), Some(30)]
    );
    assert_eq!([found(20, 20), found(30, 30), found(10, 10)], [Some(20), Some(20), None]);
    let turn = |len| all.turn_before(len).map(|c| c.len);
    assert_eq!([turn(100), turn(21), turn(20), turn(10)], [Some(20), Some(20), Some(10), None]);
    all.forget_after(20);
    assert_eq!((kept(&all), all.last_len()), (vec![(10, false), (20, true)], 20));
    // One of the same length again: the end of a turn stays one, and its logits stay known.
    all.add(checkpoint(20, false, 0), &options(8, 1 << 20));
    assert_eq!(kept(&all), [(10, false), (20, true)]);
    assert!(all.kept[1].logits.is_some());
    all.add(checkpoint(15, false, 0), &options(8, 1 << 20));
    assert_eq!(kept(&all), [(10, false), (15, false)]);
}

#[test]
fn old_ones_are_thinned_out_and_the_newest_and_ends_of_turns_stay() {
    let mut all = Checkpoints::default();
    for i in 1..=100 {
        all.add(checkpoint(512 * i, i % 40 == 0, 0), &options(8, usize::MAX));
        assert!(all.kept.len() <= 8 && all.last_len() == 512 * i);
    }
    let kept = kept(&all);
    assert!(kept.contains(&(512 * 40, true)) && kept.contains(&(512 * 80, true)), "{kept:?}");
    // To go back by some tokens computes again at most twice as many.
    for back in 1..50 {
        let (wanted, found) = (512 * (100 - back), all.find(512 * (100 - back), usize::MAX).unwrap().len);
        assert!(wanted - found <= 2 * 512 * back, "{back} steps back of {kept:?}");
    }
}

#[test]
fn ends_of_turns_give_way_to_each_other_and_leave_room() {
    let mut all = Checkpoints::default();
    for i in 1..=100 {
        all.add(checkpoint(10 * i, true, 0), &options(8, usize::MAX));
    }
    for i in 1..=4 {
        all.add(checkpoint(1000 + 10 * i, false, 0), &options(8, usize::MAX));
    }
    let kept = kept(&all);
    assert_eq!((kept.len(), kept.iter().filter(|(_, turn)| *turn).count()), (8, 4), "{kept:?}");
}

#[test]
fn bytes_are_bounded_and_none_is_kept_where_none_may() {
    let mut all = Checkpoints::default();
    for i in 1..=20 {
        all.add(checkpoint(i, false, 100), &options(8, 1200));
        assert!(all.kept.len() == i.min(3) && all.last_len() == i);
    }
    all.add(checkpoint(21, false, 1000), &options(8, 1200));
    assert_eq!(kept(&all), [(21, false)], "the newest alone may be larger");
    all.add(checkpoint(22, true, 0), &options(0, 1200));
    assert!(all.kept.is_empty());
}
