//! Every bench, run once: its result is the one that it states, on the tier under test.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use cera_benches::{Written, entries, table};

#[test]
fn every_entry_gives_its_result() {
    let table = table().unwrap();
    let faults: Vec<String> = entries().iter().filter_map(|entry| entry.check(&table).err()).collect();
    assert!(faults.is_empty(), "on {}:\n{}", table.tier(), faults.join("\n"));
}

#[test]
fn every_entry_can_be_told_from_the_others_and_names_a_kernel() {
    let (entries, table) = (entries(), table().unwrap());
    let names: HashSet<_> = entries.iter().map(|entry| (entry.group, entry.name)).collect();
    assert_eq!(names.len(), entries.len());
    assert!(entries.iter().all(|entry| entry.kernel(&table) != "none"));
}

#[test]
fn checksums_see_every_bit() {
    // FNV-1a of no bytes, and of "a".
    assert_eq!(Written::Bytes(b"").checksum(), 0xcbf2_9ce4_8422_2325);
    assert_eq!(Written::Bytes(b"a").checksum(), 0xaf63_dc4c_8601_ec8c);
    assert_ne!(Written::Floats(&[0.0]).checksum(), Written::Floats(&[-0.0]).checksum());
    assert_eq!(Written::Floats(&[1.0]).checksum(), Written::Bytes(&[0, 0, 0x80, 0x3f]).checksum());
}
