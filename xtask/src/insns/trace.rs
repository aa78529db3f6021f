//! What the plugin wrote, and the disassembly.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};

/// How often instructions are executed, by address: a sum of runs, each with a factor.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Executions(BTreeMap<u64, f64>);

/// Bytes of an instruction.
const INSTRUCTION: u64 = 4;
/// Sums of less are rounding errors.
const NOTHING: f64 = 1e-6;

impl Executions {
    /// None.
    pub(super) const fn empty() -> Executions {
        Executions(BTreeMap::new())
    }

    /// The lines of the plugin: address of a block of code, its instructions, its executions.
    ///
    /// # Errors
    /// If one has another form.
    pub(super) fn parse(text: &str) -> Result<Executions> {
        let block = |line: &str| -> Option<(u64, u64, u32)> {
            let mut words = line.split(' ');
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        let mut sum = BTreeMap::new();
        for line in text.lines() {
            let (address, instructions, times) =
                block(line).with_context(|| format!("odd line in a trace: {line:?}"))?;
            for i in 0..instructions {
                *sum.entry(address + i * INSTRUCTION).or_default() += f64::from(times);
            }
        }
        Ok(Executions(sum))
    }

    /// Adds the executions of another run, times `factor`.
    pub(super) fn add(&mut self, other: &Executions, factor: f64) {
        for (&address, times) in &other.0 {
            *self.0.entry(address).or_default() += factor * times;
        }
    }

    /// All of them.
    pub(super) fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// The instructions that are executed at all, by ascending address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, f64)> {
        self.0.iter().map(|(&address, &times)| (address, times)).filter(|(_, times)| times.abs() > NOTHING)
    }
}

/// Instructions by address.
pub(super) struct Listing(HashMap<u64, String>);

impl Listing {
    /// What `objdump --disassemble --no-show-raw-insn` prints.
    pub(super) fn parse(text: &str) -> Listing {
        let instruction = |line: &str| {
            let (address, instruction) = line.split_once(":\t")?;
            let address = u64::from_str_radix(address.trim(), 16).ok()?;
            let instruction = instruction.split("//").next().unwrap_or_default();
            Some((address, instruction.split_whitespace().collect::<Vec<_>>().join(" ")))
        };
        Listing(text.lines().filter_map(instruction).collect())
    }

    /// The instruction at an address.
    pub(super) fn at(&self, address: u64) -> &str {
        self.0.get(&address).map_or("?", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_spread_over_their_instructions() {
        let mut sum = Executions::parse("400000 3 10\n400004 1 2\n").expect("a trace");
        sum.add(&Executions::parse("400000 1 5\n").expect("a trace"), -2.0);
        assert_eq!(sum.iter().collect::<Vec<_>>(), [(0x40_0004, 12.0), (0x40_0008, 10.0)]);
        assert!((sum.total() - 22.0).abs() < 1e-9);
        assert!(Executions::parse("400000 3\n").is_err());
        assert!(Executions::parse("x 3 1\n").is_err());
    }

    #[test]
    fn instructions_are_found_by_address() {
        let text = "\n00000000004006d4 <main>:\n  4006d4:\tsub\tsp, sp, #0x10\n  4006dc:\tmov\tw2, #0x3e8\t// #1000\n";
        let listing = Listing::parse(text);
        assert_eq!(listing.at(0x40_06d4), "sub sp, sp, #0x10");
        assert_eq!(listing.at(0x40_06dc), "mov w2, #0x3e8");
        assert_eq!(listing.at(1), "?");
    }
}
