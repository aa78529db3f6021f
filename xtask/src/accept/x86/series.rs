//! What was measured of a case, and what it comes to.

use std::path::Path;

use anyhow::{Context, Result};

use super::cases::Case;
use crate::accept::Setup;
use crate::accept::peer::Peer;
use crate::accept::programs::BenchRow;
use crate::accept::verdict::{Limit, Unit, Verdict, median, median_low};

/// What a token may stream, in sizes of the weights that it is multiplied by: the rest is keys, values and states.
const BYTES_LIMIT: f64 = 1.02;

/// The samples of a case. Speeds are tokens per second, one per round.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) case: Case,
    pub(super) tier: String,
    pub(super) own: Vec<f64>,
    /// The peer's settings, in the order of the case.
    pub(super) peer: Vec<Vec<f64>>,
    /// The machine's limit right after each sample of cera, products or bytes per second.
    pub(super) limit: Vec<f64>,
    /// The share of it that cera reached.
    pub(super) share: Vec<f64>,
    /// Bytes that a generated token streams, in the last round.
    bytes_per_token: f64,
}

impl Series {
    pub(super) fn new(case: Case) -> Series {
        let peer = vec![Vec::new(); case.peer_repack.len()];
        let bytes_per_token = f64::NAN;
        let (own, limit, share) = (Vec::new(), Vec::new(), Vec::new());
        Series { case, tier: String::new(), own, peer, limit, share, bytes_per_token }
    }

    /// Runs cera and each of the peer's settings once.
    ///
    /// # Errors
    /// If a program fails.
    pub(super) fn run_round(&mut self, setup: &Setup<'_>, peer: &Peer, path: &Path) -> Result<()> {
        let case = self.case;
        let args = case.arguments(setup.threads()?);
        let mut own = [&args[..], &["--kv".to_owned(), case.kv.to_owned()]].concat();
        if !case.repack {
            own.push("--no-repack".to_owned());
        }
        self.add_own(&setup.programs.bench(path, &own, case.tier)?)?;
        for (i, repack) in case.peer_repack.iter().enumerate() {
            let mut args = args.clone();
            let mut add = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
            add("--repack", repack);
            if case.test.depth > 0 {
                ["-fa", "-ctk", "-ctv"].into_iter().zip(["1", case.kv, case.kv]).for_each(|(n, v)| add(n, v));
            }
            let (rows, _) = peer.bench(path, &args)?;
            self.peer[i].extend(rows.iter().flat_map(|row| &row.samples_ts));
        }
        Ok(())
    }

    fn add_own(&mut self, rows: &[BenchRow]) -> Result<()> {
        let row = rows.first().context("the bench printed no row")?;
        self.own.extend(&row.samples_ts);
        self.tier.clone_from(row.tier.as_ref().context("the bench names no tier")?);
        let (limit, share) = match self.case.test.n_prompt {
            0 => (row.read_bandwidth, row.bandwidth_share),
            _ => (row.integer_peak, row.peak_share),
        };
        self.bytes_per_token = row.bytes_per_token.unwrap_or(f64::NAN);
        self.limit.extend(limit);
        self.share.extend(share);
        Ok(())
    }

    /// The peer's better setting, by its median.
    fn better(&self) -> &[f64] {
        let by_median = |a: &&Vec<f64>, b: &&Vec<f64>| {
            f64::total_cmp(&median(a.iter().copied()), &median(b.iter().copied()))
        };
        self.peer.iter().max_by(by_median).map_or(&[], Vec::as_slice)
    }

    /// The ratio to the peer's better setting in each round.
    fn ratios(&self) -> Vec<f64> {
        self.own.iter().zip(self.better()).map(|(own, peer)| own / peer).collect()
    }

    /// The ratio of the medians; not a number without samples of both.
    pub(super) fn ratio(&self) -> f64 {
        median(self.own.iter().copied()) / median(self.better().iter().copied())
    }

    /// The unit of the limit, and the number of products or bytes in one of it.
    pub(super) fn limit_unit(&self) -> (&'static str, f64) {
        if self.case.test.n_prompt > 0 { ("GMAC/s", 1e9) } else { ("GB/s", 1e9) }
    }

    /// What is said of the bytes that a generated token streams beside the weights that it is multiplied by.
    pub(super) fn judge_bytes(&self, active: f64) -> Verdict {
        let name = format!("{}-bytes", self.case.name());
        let streamed = self.bytes_per_token;
        let note = format!("times {:.1} MB, the weights that a token is multiplied by", 1e-6 * active);
        Verdict::judge(&name, (streamed / active, Unit::Times), Limit::AtMost(BYTES_LIMIT), &note)
    }

    /// One verdict for each thing that is asked.
    pub(super) fn judge(&self) -> Vec<Verdict> {
        let (name, asked) = (self.case.name(), self.case.asked);
        let mid = |values: &[f64]| median(values.iter().copied());
        let peers: Vec<String> = self.peer.iter().map(|peer| format!("{:.1}", mid(peer))).collect();
        let note = format!("times the peer: {:.1} tokens/s, peer {}", mid(&self.own), peers.join(" and "));
        let ratio = (self.ratio(), Unit::Times);
        let mut all = vec![Verdict::judge(&name, ratio, Limit::AtLeast(asked.ratio), &note)];
        if let Some(least) = asked.ratio_low {
            let note = "times the peer, the lower end of the 95 % interval of the median";
            let low = (median_low(&self.ratios()), Unit::Times);
            all.push(Verdict::judge(&format!("{name}-low"), low, Limit::AtLeast(least), note));
        }
        if let Some(least) = asked.share {
            let (unit, scale) = self.limit_unit();
            let note = format!("of {:.1} {unit}", mid(&self.limit) / scale);
            let share = (mid(&self.share), Unit::Percent);
            all.push(Verdict::judge(&format!("{name}-share"), share, Limit::AtLeast(least), &note));
        }
        all
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cases;
    use super::*;
    use crate::accept::Check;

    /// A series of decoding with three rounds.
    pub(in super::super) fn series() -> Series {
        let case = cases::all().into_iter().find(|case| case.check == Check::Decode).expect("a case");
        let mut series = Series::new(case);
        for (own, on, off) in [(25.0, 10.0, 19.0), (24.0, 12.0, 20.0), (90.0, 11.0, 1.0)] {
            let row = BenchRow {
                samples_ts: vec![own],
                tier: Some("avx2".to_owned()),
                integer_peak: Some(4e11),
                peak_share: None,
                bytes_per_token: Some(1.01e9),
                read_bandwidth: Some(3e10),
                bandwidth_share: Some(0.9),
            };
            series.add_own(&[row]).expect("a row");
            series.peer[0].push(on);
            series.peer[1].push(off);
        }
        series
    }

    #[test]
    fn the_better_setting_is_the_measure_in_medians() {
        let series = series();
        assert_eq!(series.better(), [19.0, 20.0, 1.0]);
        assert!((series.ratio() - 25.0 / 19.0).abs() < 1e-12);
        let lines: Vec<String> = series.judge().iter().map(ToString::to_string).collect();
        assert!(lines[0].starts_with("ok   decode-1B-Q4_0-decode-128: 1.316 ("), "{}", lines[0]);
        assert!(lines[0].contains("25.0 tokens/s, peer 11.0 and 19.0"), "{}", lines[0]);
        assert!(lines[1].starts_with("FAIL"), "three rounds have no such interval: {}", lines[1]);
        assert!(lines[2].starts_with("ok ") && lines[2].contains("90.00 % (of 30.0 GB/s)"), "{}", lines[2]);
    }

    #[test]
    fn what_a_token_streams_is_held_against_its_weights() {
        let line = |active| series().judge_bytes(active).to_string();
        assert!(line(1e9).starts_with("ok   decode-1B-Q4_0-decode-128-bytes: 1.010 ("), "{}", line(1e9));
        assert!(line(0.9e9).starts_with("FAIL"), "{}", line(0.9e9));
        let unknown = Series { bytes_per_token: f64::NAN, ..series() };
        assert!(unknown.judge_bytes(1e9).to_string().starts_with("FAIL"));
    }

    #[test]
    fn a_case_without_samples_is_no_success() {
        let series = Series { peer: vec![Vec::new(); 2], ..series() };
        assert!(series.ratio().is_nan());
        assert!(series.judge()[0].to_string().starts_with("FAIL"));
    }
}
