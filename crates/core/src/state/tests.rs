use super::*;

fn state(limit: usize) -> SeqState {
    let shape = KvShape { heads: 2, k_dim: 3, v_dim: 5 };
    let layers = vec![LayerState::Kv(shape); 2];
    SeqState::new(Arc::new(StateSpec { layers }), KvType::F32, limit)
}

fn append(state: &mut SeqState, tokens: usize) -> Vec<Vec<*mut u8>> {
    let pages = state.reserve(tokens).unwrap();
    state.advance(tokens);
    pages
}

#[test]
fn pages_come_as_positions_need_them() {
    let mut state = state(1000);
    assert_eq!(state.bytes(), 0);
    for (tokens, pages) in [(0, 0), (1, 1), (62, 1), (1, 1), (1, 2), (200, 5)] {
        append(&mut state, tokens);
        assert_eq!(state.bytes(), state.spec.bytes(KvType::F32, state.len()), "{}", state.len());
        assert!(state.layers.iter().all(|layer| layer.len() == pages), "{}", state.len());
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
    assert_eq!(state.layers[1].len(), 1);
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
    let other = StateSpec { layers: vec![] };
    let mut b = SeqState::new(Arc::new(other), KvType::F32, 10);
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
    let held = |s: &SeqState| s.layers.iter().flatten().map(|page| page.to_vec()).collect::<Vec<_>>();
    assert_eq!((b.len(), held(&b)), (130, held(&a)));
}
