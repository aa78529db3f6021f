//! What a kernel executes, for what, and how it is shown.

use std::collections::BTreeMap;

use super::minimum;
use super::trace::{Executions, Listing};

/// Elements that counts are given for.
pub(super) const BLOCK: usize = 32;
/// Weight rows of a strip.
const STRIP: f64 = 16.0;
/// By how much a checked tile may be above its minimum.
const MARGIN: f64 = 1.15;

/// Parts of a count: what grows with rows and tokens, for 8 rows and 4 tokens; what grows with rows alone, for 8 rows;
/// what grows with tokens alone, for 4 tokens.
pub(super) const PARTS: usize = 3;

/// The head of the table.
pub(super) const HEAD: &str = "\
| tier | format | register tile | 8 x 4 tile | of them products | per product | minimum | above it | 8 rows | 4 tokens |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|";

/// Adds the executions for so many strips and prompts to the parts, in such a way that, after one and two of both, each
/// part has what grows with what it is named for.
pub(super) fn distribute(
    parts: &mut [Executions; PARTS],
    executions: &Executions,
    (strips, prompts): (usize, usize),
    tokens: usize,
) {
    // The second difference; and the first ones, without what the second one adds to them.
    let sign = |long: bool| if long { 1.0 } else { -1.0 };
    let (rows, columns) = (sign(strips == 2), sign(prompts == 2));
    let at_one = |number: usize| if number == 1 { 2.0 } else { -1.0 };
    let (eights, fours) = (STRIP / 8.0, tokens as f64 / 4.0);
    parts[0].add(executions, rows * columns / eights / fours);
    parts[1].add(executions, rows * at_one(prompts) / eights);
    parts[2].add(executions, columns * at_one(strips) / fours);
}

/// What a kernel executes for 32 elements.
pub(super) struct Count {
    tier: String,
    format: String,
    /// Weight rows and tokens of the register tile.
    shape: (usize, usize),
    /// Whether `parts` has all of them, or everything in the first.
    split: bool,
    parts: [Executions; PARTS],
}

impl Count {
    /// A count in parts.
    pub(super) fn of_parts(
        (tier, format): (&str, &str),
        shape: (usize, usize),
        parts: [Executions; PARTS],
    ) -> Count {
        Count { tier: tier.to_owned(), format: format.to_owned(), shape, split: true, parts }
    }

    /// A count of all that a strip with some tokens takes.
    pub(super) fn of_whole(
        names: (&str, &str),
        shape: (usize, usize),
        tokens: usize,
        executions: Executions,
    ) -> Count {
        let mut parts = [const { Executions::empty() }; PARTS];
        parts[0].add(&executions, 8.0 / STRIP * 4.0 / tokens as f64);
        Count { split: false, ..Count::of_parts(names, shape, parts) }
    }

    fn tile(&self) -> f64 {
        self.parts[0].total()
    }

    /// The minimum of the tile, where one is derived.
    fn minimum(&self) -> Option<f64> {
        minimum::of(&self.tier, &self.format).filter(|_| self.split)
    }

    /// The line of the table. Products are known only by a listing, so that their number is derived, not counted.
    pub(super) fn row(&self) -> String {
        let tile = self.tile();
        let products = minimum::products(&self.tier, &self.format);
        let (number, per_product) = products.map_or_else(Default::default, |products| {
            (format!("{products:.0}"), format!("{:.2}", tile / products))
        });
        let (minimum, gap) = self.minimum().map_or_else(Default::default, |minimum| {
            (format!("{minimum:.1}"), format!("{:.0} %", (tile / minimum - 1.0) * 100.0))
        });
        let others =
            self.parts[1..].iter().map(Executions::total).map(|total| format!("{:.1}", total.max(0.0)));
        let others = if self.split { others.collect::<Vec<_>>().join(" | ") } else { " | ".to_owned() };
        let (rows, columns) = self.shape;
        format!(
            "| {} | {} | {rows} x {columns} | {tile:.1} | {number} | {per_product} | {minimum} | {gap} | {others} |",
            self.tier, self.format
        )
    }

    /// Every instruction of the tile, by address, and the sums by mnemonic.
    pub(super) fn listing(&self, listing: &Listing) -> String {
        let mut text = String::new();
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (address, times) in self.parts[0].iter() {
            let instruction = listing.at(address);
            text += &format!("    {times:8.3}  {address:x}  {instruction}\n");
            let mnemonic = instruction.split_whitespace().next().unwrap_or("?").to_owned();
            *sums.entry(mnemonic).or_default() += times;
        }
        let mut sums: Vec<(String, f64)> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        let sums: Vec<String> = sums.iter().map(|(name, times)| format!("{name} {times:.2}")).collect();
        text += &format!("    sums: {}", sums.join(", "));
        if let Some(terms) = minimum::terms(&self.tier, &self.format).filter(|_| self.split) {
            let terms: Vec<String> = terms.iter().map(|(name, times)| format!("{name} {times:.2}")).collect();
            text += &format!("\n    minimum: {}", terms.join(", "));
        }
        text
    }

    /// What is wrong with the tile, if it is held against its minimum.
    pub(super) fn fault(&self) -> Option<String> {
        let checked = minimum::is_checked(&self.tier, &self.format);
        let (tile, minimum) = (self.tile(), self.minimum().filter(|_| checked)?);
        let above = tile > MARGIN * minimum;
        above.then(|| format!("{} {}: {tile:.1} instructions, {minimum:.1} at least", self.tier, self.format))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_grows_with_rows_tokens_and_both() {
        // Of two strips and 96 tokens: 5 for a tile of 8 x 4, 7 for 8 rows, 3 for 4 tokens, and 1000 for a call.
        let work = |strips: usize, tokens: usize| {
            let (eights, fours) = (strips * 2, tokens / 4);
            let total = 5 * eights * fours + 7 * eights + 3 * fours + 1000;
            Executions::parse(&format!("400000 1 {total}\n")).expect("a trace")
        };
        let mut parts = [const { Executions::empty() }; PARTS];
        for (strips, prompts) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            distribute(&mut parts, &work(strips, prompts * 96), (strips, prompts), 96);
        }
        let totals: Vec<f64> = parts.iter().map(|part| part.total().round()).collect();
        assert_eq!(totals, [5.0, 7.0, 3.0]);
    }

    #[test]
    fn a_whole_product_is_spread_over_its_tiles() {
        let executions = Executions::parse("400000 3 100\n").expect("a trace");
        let count = Count::of_whole(("neon", "F32"), (8, 4), 8, executions);
        assert!((count.tile() - 75.0).abs() < 1e-9, "{}", count.tile());
        assert!(count.fault().is_none());
    }
}
