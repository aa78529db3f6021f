//! What the machine could do at most: the rates that prefill (integer dot products) and decoding (reads) are judged by.

use std::panic::resume_unwind;
use std::time::Instant;

use crate::buffer::AlignedBuf;
use crate::error::Error;
use crate::table::KernelTable;
use crate::width::running_at_once;

/// The rate, in bytes per second, at which `width` threads, or one for each processor if those are fewer, read `bytes` of
/// memory, each its own part: the best of `repeats` rounds. For a rate of memory rather than of a cache `bytes` must be well over its size.
///
/// Reading only, since decoding does little else.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn read_bandwidth(width: usize, bytes: usize, repeats: usize) -> Result<f64, Error> {
    let mut buf = AlignedBuf::zeroed(bytes)?;
    // Written once, so that every page is memory of its own rather than the system's page of zeros.
    buf.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let part = bytes.div_ceil(running_at_once(width)).next_multiple_of(64);
    let mut best = 0.0f64;
    for _ in 0..repeats {
        let start = Instant::now();
        share_out(buf.chunks(part.max(64)), |part| std::hint::black_box(sum(part)));
        best = best.max(bytes as f64 / start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Runs `work` on every item, the first on the calling thread and each other one on a thread of its own. The system puts
/// a thread that begins while its creator computes on another processor; two that begin together may share one for the
/// whole of a short round.
fn share_out<T: Send, R: Send>(items: impl IntoIterator<Item = T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let mut items = items.into_iter();
    let Some(own) = items.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let own = work(own);
        let others =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    })
}

/// Rounds of dot products per thread: ten milliseconds or so.
const DOT_ROUNDS: usize = 4 << 20;

/// The rate, in products added up per second, of `width` threads, or one for each processor if those are fewer, that run
/// nothing but the integer dot product of the table's tier: the best of `repeats` rounds. `None` for a tier without such
/// an instruction.
pub fn integer_peak(table: &KernelTable, width: usize, repeats: usize) -> Option<f64> {
    dot_rate(table, width, repeats, DOT_ROUNDS)
}

fn dot_rate(table: &KernelTable, width: usize, repeats: usize, rounds: usize) -> Option<f64> {
    let mut best = 0.0f64;
    for _ in 0..repeats {
        let start = Instant::now();
        let macs: Option<usize> =
            share_out(0..running_at_once(width), |_| table.run_dots(rounds)).into_iter().sum();
        best = best.max(macs? as f64 / start.elapsed().as_secs_f64());
    }
    Some(best)
}

/// Sums words in several chains, so that loads alone bound the speed.
fn sum(bytes: &[u8]) -> u64 {
    let (blocks, _) = bytes.as_chunks::<128>();
    let mut sums = [0u64; 16];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::{CpuTier, TierChoice};

    #[test]
    fn every_whole_block_is_read() {
        let bytes: Vec<u8> = (0..1024u32).map(|i| (i % 251) as u8).collect();
        let plain = bytes.chunks(8).fold(0u64, |sum, word| {
            sum.wrapping_add(word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
        });
        assert_eq!(sum(&bytes), plain);
    }

    #[test]
    fn dot_products_have_a_rate_where_a_tier_has_an_instruction() {
        assert_eq!(dot_rate(&KernelTable::scalar(), 2, 1, 16), None);
        for tier in CpuTier::ALL {
            let Ok(choice) = TierChoice::of(tier) else { continue };
            let table = KernelTable::new(&choice);
            let rates = [0, 1, 3].map(|width| dot_rate(&table, width, 2, 16));
            assert!(rates.iter().flatten().all(|&rate| rate > 0.0), "{tier}: {rates:?}");
        }
    }

    #[test]
    fn a_rate_comes_out_for_any_width() {
        for width in [0, 1, 3] {
            assert!(read_bandwidth(width, 1 << 16, 1).unwrap() > 0.0);
        }
    }
}
