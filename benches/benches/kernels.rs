//! Measures every bench, after checking its result. Ids are `GROUP/FORMAT (KERNEL)`; a filter is an argument after `--`.
#![allow(missing_docs, reason = "the macros make public functions")]

use std::hint::black_box;
use std::time::Duration;

use cera_benches::{Amount, entries, table};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn kernels(c: &mut Criterion) {
    let table = match table() {
        Ok(table) => table,
        Err(error) => panic!("{error}"),
    };
    for entry in entries() {
        let mut group = c.benchmark_group(entry.group);
        group.throughput(match entry.amount {
            Amount::Bytes(bytes) => Throughput::Bytes(bytes as u64),
            // Per second: multiply-adds, or elements.
            Amount::MultiplyAdds(count) | Amount::Elements(count) => Throughput::Elements(count as u64),
        });
        group.bench_function(format!("{} ({})", entry.name, entry.kernel(&table)), |b| {
            if let Err(fault) = entry.check(&table) {
                panic!("{fault}");
            }
            let mut work = entry.make(&table);
            b.iter(|| {
                black_box(work.run(&table));
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500));
    targets = kernels
}
criterion_main!(benches);
