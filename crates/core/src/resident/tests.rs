use super::*;

fn wanted(members: &[usize], len: usize) -> Vec<Wanted> {
    members.iter().map(|&member| Wanted { member: (0, member), packed: len, plain: len }).collect()
}

/// One letter for each matrix: here, to pack, no room.
fn take(resident: &Resident, members: &[usize], len: usize) -> String {
    let letter = |found: &Found| match found {
        Found::Here(_) => 'h',
        Found::ToPack(_) => 'p',
        Found::NoRoom => '-',
    };
    resident.take(&wanted(members, len)).iter().map(letter).collect()
}

#[test]
fn those_used_longest_ago_are_dropped() {
    let resident = Resident::new(300);
    assert_eq!(take(&resident, &[1, 2], 100), "pp");
    assert_eq!(take(&resident, &[1, 3], 100), "hp");
    assert_eq!(take(&resident, &[4], 100), "p", "2 is dropped");
    assert_eq!(take(&resident, &[1, 3], 100), "hh");
    assert_eq!(take(&resident, &[2], 100), "p", "4 is dropped");
    assert_eq!(take(&resident, &[1, 2, 3], 100), "hhh");
    let stats = resident.stats();
    assert_eq!((stats.hits, stats.misses, stats.bypassed), (6, 5, 0));
    assert_eq!((stats.bytes, stats.peak, stats.read), (300, 300, 500));
}

#[test]
fn what_is_worked_on_is_never_dropped() {
    let resident = Resident::new(250);
    assert_eq!(take(&resident, &[1, 2, 3], 100), "pp-");
    assert_eq!(take(&resident, &[3, 2], 100), "ph", "1 is dropped, whatever the order");
    assert_eq!(take(&resident, &[1, 2, 3], 100), "-hh");
    assert!(resident.stats().peak <= 250);
    assert_eq!(take(&Resident::new(0), &[1], 100), "-");
}

#[test]
fn sizes_may_differ() {
    let resident = Resident::new(1000);
    assert_eq!(take(&resident, &[1, 2, 3, 4, 5], 200), "ppppp");
    assert_eq!(take(&resident, &[6], 500), "p");
    assert_eq!(take(&resident, &[4, 5, 1], 200), "hhp");
    assert_eq!((resident.stats().bytes, resident.stats().peak), (600, 1000), "6 is dropped");
}

#[test]
fn what_may_not_have_been_packed_is_forgotten() {
    let resident = Resident::new(500);
    assert_eq!(take(&resident, &[1], 100), "p");
    let then = resident.now();
    assert_eq!(take(&resident, &[1, 2], 100), "hp");
    resident.forget_since(then);
    assert_eq!(take(&resident, &[1, 2], 100), "hp");
    assert_eq!(resident.stats().bytes, 200);
}
