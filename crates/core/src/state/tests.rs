use super::*;

const SHAPE: KvShape = KvShape { heads: 2, k_dim: 3, v_dim: 5 };
const ALL: LayerState = LayerState::Kv { shape: SHAPE, window: None };
const RECURRENT: LayerState = LayerState::Recurrent { len: 20 };

/// A layer whose tokens see so many positions.
fn windowed(window: usize) -> LayerState {
    LayerState::Kv { shape: SHAPE, window: Some(window) }
}

fn state_of(layers: &[LayerState], limit: usize) -> SeqState {
    let spec = StateSpec { layers: layers.to_vec(), long_beyond: Some(500) };
    SeqState::new(Arc::new(spec), KvType::F32, limit)
}

fn state(limit: usize) -> SeqState {
    state_of(&[ALL; 2], limit)
}

/// A step of `tokens` tokens that writes nothing; gives the pages of the layers with keys.
fn append(state: &mut SeqState, tokens: usize) -> Vec<Vec<*mut u8>> {
    let memory = state.reserve(tokens).unwrap();
    state.advance(tokens);
    state.drop_unseen();
    let pages = |layer| match layer {
        LayerMemory::Kv { pages, .. } => Some(pages),
        LayerMemory::Recurrent { .. } => None,
    };
    memory.into_iter().filter_map(pages).collect()
}

/// A step of a token that puts `value` into the recurrent layers.
fn recur(state: &mut SeqState, value: f32) {
    for layer in state.reserve(1).unwrap() {
        if let LayerMemory::Recurrent { next, .. } = layer {
            // SAFETY: the memory for what is after the step is nobody else's and has an element.
            unsafe { next.write(value) };
        }
    }
    state.advance(1);
    state.drop_unseen();
}

/// The first element of the first recurrent layer; zero if it has none yet.
fn recurrent(state: &SeqState) -> f32 {
    let current = state.layers.iter().find_map(|layer| match layer {
        Layer::Recurrent(recurrent) => recurrent.current.as_ref(),
        Layer::Kv(_) => None,
    });
    current.and_then(|bytes| bytes.first_chunk()).map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
}

/// The pages that a layer holds: the first, and how many.
fn pages(layer: &Layer) -> (usize, usize) {
    match layer {
        Layer::Kv(pages) => (pages.first, pages.held.len()),
        Layer::Recurrent(_) => panic!("no pages"),
    }
}

#[test]
fn pages_come_as_positions_need_them() {
    let mut state = state(1000);
    assert_eq!(state.bytes(), 0);
    for (tokens, pages) in [(0, 0), (1, 1), (62, 1), (1, 1), (1, 2), (200, 5)] {
        append(&mut state, tokens);
        assert_eq!(state.bytes(), state.spec.bytes(KvType::F32, state.len()), "{}", state.len());
        assert!(state.layers.iter().all(|layer| self::pages(layer) == (0, pages)), "{}", state.len());
    }
}

#[test]
fn forks_share_pages_until_they_write() {
    let mut a = state(1000);
    append(&mut a, 70);
    let mut b = a.fork();
    let (pages_a, pages_b) = (append(&mut a, 1), append(&mut b, 1));
    assert_eq!(pages_a[0][0], pages_b[0][0], "a full page stays shared");
    assert_ne!(pages_a[0][1], pages_b[0][1], "a page that both write is copied");
    let again = append(&mut b, 1);
    assert_eq!(again[0][1], pages_b[0][1], "an owned page is not copied again");
}

#[test]
fn truncate_drops_whole_pages_and_never_grows() {
    let mut state = state(1000);
    append(&mut state, 130);
    assert_eq!(state.truncate(500), 130);
    assert_eq!(state.truncate(64), 64);
    assert_eq!(pages(&state.layers[1]), (0, 1));
    assert_eq!(state.truncate(0), 0);
    assert_eq!(state.bytes(), 0);
}

#[test]
fn snapshots_return_and_are_checked() {
    let mut a = state(1000);
    append(&mut a, 100);
    let snapshot = a.snapshot();
    append(&mut a, 100);
    a.restore(&snapshot).unwrap();
    assert_eq!(a.len(), 100);
    let mut b = state_of(&[], 10);
    assert_eq!(b.restore(&snapshot), Err(Error::StateMismatch));
    let mut c = SeqState::new(a.spec().clone(), KvType::F16, 10);
    assert_eq!(c.restore(&snapshot), Err(Error::StateMismatch));
}

#[test]
fn room_is_counted() {
    let mut state = state(64);
    assert_eq!(state.check_room(64), Ok(()));
    append(&mut state, 63);
    assert_eq!(state.check_room(1), Ok(()));
    assert_eq!(state.check_room(2), Err(Error::ContextFull { held: 63, added: 2, limit: 64 }));
    assert_eq!(
        state.check_room(usize::MAX),
        Err(Error::ContextFull { held: 63, added: usize::MAX, limit: 64 })
    );
}

#[test]
fn a_written_state_is_read_back_whole_or_not_at_all() {
    let mut a = state(200);
    let pages = append(&mut a, 130);
    for (i, page) in pages.iter().flatten().enumerate() {
        // SAFETY: `a` is the only owner of its pages, and nothing else borrows them.
        unsafe { page.write(i as u8 + 1) };
    }
    let mut file = Vec::new();
    a.write_to(&mut file).unwrap();
    assert_eq!(file.len(), a.bytes());
    let mut b = state(200);
    append(&mut b, 3);
    let cut = b.read_from(130, &mut &file[..file.len() - 1]);
    assert!(matches!(cut, Err(Error::Read { .. })), "{cut:?}");
    let full = b.read_from(201, &mut &file[..]);
    assert!(matches!(full, Err(Error::ContextFull { held: 0, added: 201, limit: 200 })), "{full:?}");
    assert_eq!((b.len(), b.bytes()), (3, b.spec.bytes(KvType::F32, 3)));
    b.read_from(130, &mut &file[..]).unwrap();
    let held = |s: &SeqState| s.buffers().map(|buffer| buffer.to_vec()).collect::<Vec<_>>();
    assert_eq!((b.len(), held(&b)), (130, held(&a)));
}

#[test]
fn windows_drop_the_pages_that_no_later_token_sees() {
    for window in [0, 1, 12, 64, 65, 100, 200] {
        let mut state = state_of(&[windowed(window), ALL], 1000);
        for step in [1, 1, 60, 3, 130, 1, 1, 300] {
            append(&mut state, step);
            let len = state.len();
            let (first, held) = pages(&state.layers[0]);
            // The token at position `len` sees itself and `window - 1` positions before it.
            let seen = (len + 1).saturating_sub(window.max(1));
            assert_eq!((first, first + held), (seen / PAGE_KEYS, len.div_ceil(PAGE_KEYS)), "{window}: {len}");
            assert!(held <= window.div_ceil(PAGE_KEYS) + 1, "{window}: {held} pages");
            assert_eq!(pages(&state.layers[1]), (0, len.div_ceil(PAGE_KEYS)));
            assert_eq!(state.bytes(), state.spec.bytes(KvType::F32, len));
        }
    }
}

#[test]
fn a_window_goes_back_as_far_as_it_is_held() {
    let mut state = state_of(&[windowed(100), ALL], 1000);
    append(&mut state, 300);
    assert_eq!(pages(&state.layers[0]), (3, 2));
    assert_eq!(state.truncate(296), 296);
    append(&mut state, 4);
    // The token at 290 sees position 191, on a page that is gone.
    assert_eq!(state.truncate(290), 0);
    assert_eq!((state.len(), state.bytes()), (0, 0));
    append(&mut state, 50);
    assert_eq!(state.truncate(20), 20, "nothing is dropped yet");
}

#[test]
fn recurrent_layers_go_back_by_snapshots_only() {
    let mut state = state_of(&[RECURRENT, ALL], 1000);
    recur(&mut state, 1.0);
    recur(&mut state, 2.0);
    let snapshot = state.snapshot();
    recur(&mut state, 3.0);
    let mut fork = state.fork();
    recur(&mut fork, 4.0);
    recur(&mut fork, 5.0);
    assert_eq!((recurrent(&state), recurrent(&fork)), (3.0, 5.0));
    assert_eq!((fork.truncate(9), recurrent(&fork)), (5, 5.0));
    state.restore(&snapshot).unwrap();
    assert_eq!((state.len(), recurrent(&state)), (2, 2.0));
    assert_eq!((state.truncate(1), recurrent(&state)), (0, 0.0));
    recur(&mut state, 6.0);
    assert_eq!(recurrent(&state), 6.0);
}

#[test]
fn steps_of_a_recurrent_layer_take_turns_in_two_buffers() {
    let mut state = state_of(&[RECURRENT], 1000);
    let mut seen = std::collections::HashSet::new();
    for i in 0..10 {
        recur(&mut state, i as f32);
        seen.insert(state.buffers().next().unwrap().as_ptr_mut());
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_failed_step_goes_back_to_where_it_began() {
    let mut state = state_of(&[RECURRENT, windowed(70), ALL], 1000);
    append(&mut state, 99);
    recur(&mut state, 1.0);
    let before: Vec<_> = state.layers[1..].iter().map(pages).collect();
    let held = state.hold();
    for value in [2.0, 3.0, 4.0] {
        for layer in state.reserve(200).unwrap() {
            if let LayerMemory::Recurrent { next, .. } = layer {
                // SAFETY: as in `recur`.
                unsafe { next.write(value) };
            }
        }
        state.advance(200);
    }
    state.go_back(held);
    assert_eq!((state.len(), recurrent(&state)), (100, 1.0));
    assert_eq!(state.layers[1..].iter().map(pages).collect::<Vec<_>>(), before);
}

#[test]
fn all_kinds_of_layers_are_written_and_read_back() {
    let mut a = state_of(&[RECURRENT, windowed(70), ALL], 400);
    append(&mut a, 300);
    recur(&mut a, 7.0);
    let mut file = Vec::new();
    a.write_to(&mut file).unwrap();
    assert_eq!(file.len(), a.spec.bytes(KvType::F32, 301));
    let mut b = state_of(&[RECURRENT, windowed(70), ALL], 400);
    b.read_from(301, &mut &file[..]).unwrap();
    assert_eq!((b.len(), recurrent(&b), pages(&b.layers[1])), (301, 7.0, pages(&a.layers[1])));
    let mut again = Vec::new();
    b.write_to(&mut again).unwrap();
    assert_eq!(again, file);
    a.read_from(0, &mut &[][..]).unwrap();
    assert_eq!((a.len(), a.bytes()), (0, 0));
}

#[test]
fn keys_of_long_sequences_are_not_those_of_short_ones() {
    let (mut short, mut long) = (state(500), state(501));
    append(&mut short, 3);
    assert!(!short.is_long() && long.is_long());
    assert_eq!(long.restore(&short.snapshot()), Err(Error::StateMismatch));
    assert_eq!(state(30).restore(&short.snapshot()), Ok(()));
}
