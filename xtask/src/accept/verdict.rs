//! Thresholds and what is said of them.

use std::fmt;

/// A threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// The value must not be larger.
    AtMost(f64),
    /// The value must be smaller.
    Below(f64),
    /// The value must not be smaller.
    AtLeast(f64),
}

impl Limit {
    /// Whether the value is within the limit. What is no number is within none.
    fn holds(self, value: f64) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::Below(limit) => value < limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }
}

/// A value with its unit, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    /// A number of times something else.
    Times,
    /// A fraction, printed in percent.
    Percent,
    /// Bytes, printed in MB.
    Megabytes,
    /// Seconds.
    Seconds,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Unit::Times => format!("{value:.3}"),
            Unit::Percent => format!("{:.2} %", 100.0 * value),
            Unit::Megabytes => format!("{:.1} MB", value / 1e6),
            Unit::Seconds => format!("{value:.3} s"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    Fail,
    Skip,
}

/// What a check says of one threshold. It prints as its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    state: State,
    name: String,
    text: String,
}

impl Verdict {
    /// `value` held against `limit`; `note` says more of what was measured.
    pub(super) fn judge(name: &str, (value, unit): (f64, Unit), limit: Limit, note: &str) -> Verdict {
        let state = if limit.holds(value) { State::Ok } else { State::Fail };
        let (word, bound) = match limit {
            Limit::AtMost(bound) => ("at most", bound),
            Limit::Below(bound) => ("below", bound),
            Limit::AtLeast(bound) => ("at least", bound),
        };
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        let text = format!("{}{note}, limit {word} {}", unit.show(value), unit.show(bound));
        Verdict { state, name: name.to_owned(), text }
    }

    /// A check that could not be made: a failure.
    pub(super) fn broken(name: &str, error: &anyhow::Error) -> Verdict {
        Verdict { state: State::Fail, name: name.to_owned(), text: format!("{error:#}") }
    }

    /// A check that was not made.
    pub(super) fn skipped(name: &str, why: &str) -> Verdict {
        Verdict { state: State::Skip, name: name.to_owned(), text: format!("NOT CHECKED: {why}") }
    }

    /// Whether the check was made.
    pub(super) fn is_made(&self) -> bool {
        self.state != State::Skip
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Ok => "ok  ",
            State::Fail => "FAIL",
            State::Skip => "SKIP",
        };
        write!(f, "{state} {}: {}", self.name, self.text)
    }
}

/// What all verdicts come to.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) text: String,
    /// Whether every verdict is `ok` and there is one. What was skipped is not accepted.
    pub(super) accepted: bool,
}

/// Counts the verdicts and names those that are not `ok`.
pub(super) fn summarize(verdicts: &[Verdict]) -> Summary {
    let of = |state| verdicts.iter().filter(move |verdict| verdict.state == state);
    let mut text = format!("{} ok", of(State::Ok).count());
    for (state, word) in [(State::Fail, "failed"), (State::Skip, "skipped")] {
        let names: Vec<&str> = of(state).map(|verdict| verdict.name.as_str()).collect();
        if !names.is_empty() {
            text += &format!("; {} {word}: {}", names.len(), names.join(", "));
        }
    }
    let accepted = !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.state == State::Ok);
    Summary { text, accepted }
}

/// The middle value, or the mean of the two in the middle; not a number if there is none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The lower end of a 95 % interval of the median, without any assumption on the distribution: the largest sample that
/// no more than 2.5 % of all medians lie below, by the binomial distribution of how many samples are smaller. Not a number
/// if there are fewer samples than such an interval takes.
pub(super) fn median_low(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The probability that fewer than `rank` of the samples are below the median.
    let (mut below, mut term) = (0.0, (0..n).fold(1.0, |power, _| 0.5 * power));
    let mut low = f64::NAN;
    for (i, &value) in sorted.iter().enumerate() {
        below += term;
        if below > 0.025 {
            break;
        }
        low = value;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    low
}

/// A share in percent, or a dash where nothing is known.
pub(super) fn percent(share: f64) -> String {
    if share.is_nan() { "-".to_owned() } else { format!("{:.0} %", 100.0 * share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sharp_and_no_number_is_within_none() {
        for (limit, held, broken) in [
            (Limit::AtMost(3.0), [2.0, 3.0], [3.001, f64::NAN]),
            (Limit::Below(3.0), [2.0, 2.999], [3.0, f64::NAN]),
            (Limit::AtLeast(3.0), [3.0, 4.0], [2.999, f64::NAN]),
        ] {
            assert!(held.iter().all(|&value| limit.holds(value)), "{limit:?}");
            assert!(!broken.iter().any(|&value| limit.holds(value)), "{limit:?}");
        }
    }

    #[test]
    fn a_verdict_is_a_line_with_value_and_limit() {
        let judge = |value, limit| Verdict::judge("x", (value, Unit::Times), limit, "why").to_string();
        assert_eq!(judge(2.5, Limit::AtMost(3.0)), "ok   x: 2.500 (why), limit at most 3.000");
        assert_eq!(judge(2.5, Limit::AtLeast(3.0)), "FAIL x: 2.500 (why), limit at least 3.000");
        let memory = Verdict::judge("y", (2e6, Unit::Megabytes), Limit::AtMost(1e6), "");
        assert_eq!(memory.to_string(), "FAIL y: 2.0 MB, limit at most 1.0 MB");
        let idle = Verdict::judge("z", (0.004, Unit::Percent), Limit::Below(0.01), "");
        assert_eq!(idle.to_string(), "ok   z: 0.40 %, limit below 1.00 %");
        assert_eq!(Verdict::skipped("s", "no peer").to_string(), "SKIP s: NOT CHECKED: no peer");
        assert_eq!(Verdict::broken("b", &anyhow::anyhow!("no file")).to_string(), "FAIL b: no file");
    }

    #[test]
    fn only_what_was_checked_and_held_is_accepted() {
        let ok = Verdict::judge("a", (1.0, Unit::Times), Limit::AtMost(1.0), "");
        let fail = Verdict::judge("b", (2.0, Unit::Times), Limit::AtMost(1.0), "");
        let skip = Verdict::skipped("c", "why");
        let accepted = |verdicts: &[Verdict]| summarize(verdicts).accepted;
        assert!(accepted(&[ok.clone(), ok.clone()]));
        assert!(
            !accepted(&[])
                && !accepted(&[ok.clone(), skip.clone()])
                && !accepted(&[ok.clone(), fail.clone()])
        );
        assert_eq!(summarize(&[ok, fail.clone(), skip, fail]).text, "1 ok; 2 failed: b, b; 1 skipped: c");
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn the_interval_of_a_median_takes_six_samples() {
        assert!(median_low(&[1.0; 5]).is_nan() && median_low(&[]).is_nan());
        assert_eq!(median_low(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), 1.0);
        // Of 15 samples the fourth: that at most three are below the median has a probability of 1.8 %.
        assert_eq!(median_low(&(1..=15).map(f64::from).collect::<Vec<_>>()), 4.0);
        assert_eq!(percent(f64::NAN), "-");
        assert_eq!(percent(0.875), "88 %");
    }
}
