//! The comparison as a Markdown table.

use super::series::Series;
use crate::accept::verdict::{median, percent};

/// The headings; `docs/perf/x86.md` explains them.
const HEADINGS: &str = "\
| model | test | tier | cera | llama.cpp, repack on | repack off | cera / better | of the machine's limit | limit |
|---|---|---|---:|---:|---:|---:|---:|---:|
";

/// The results of a check.
pub(super) fn markdown(all: &[Series], rounds: usize) -> String {
    let rows: String = all.iter().map(row).collect();
    format!("Tokens/s, medians of {rounds} alternating rounds.\n\n{HEADINGS}{rows}")
}

fn row(series: &Series) -> String {
    let mid = |values: &[f64]| median(values.iter().copied());
    let case = series.case;
    let peer = |setting: &str| {
        let at = case.peer_repack.iter().position(|repack| *repack == setting);
        at.map_or_else(|| "-".to_owned(), |at| format!("{:.1}", mid(&series.peer[at])))
    };
    let (unit, scale) = series.limit_unit();
    format!(
        "| {} | {} | {} | {:.1} | {} | {} | {:.2} | {} | {:.1} {unit} |\n",
        case.model.name(),
        case.label(),
        series.tier,
        mid(&series.own),
        peer("1"),
        peer("0"),
        series.ratio(),
        percent(mid(&series.share)),
        mid(&series.limit) / scale
    )
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::series;
    use super::*;

    #[test]
    fn rows_have_as_many_cells_as_headings() {
        let cells = |line: &str| line.matches('|').count();
        let row = row(&series());
        let expected = HEADINGS.lines().next().map(cells);
        assert!(HEADINGS.lines().chain(row.lines()).all(|line| Some(cells(line)) == expected));
        assert_eq!(
            row.trim(),
            "| 1B Q4_0 | decode 128 | avx2 | 25.0 | 11.0 | 19.0 | 1.32 | 90 % | 30.0 GB/s |"
        );
    }
}
