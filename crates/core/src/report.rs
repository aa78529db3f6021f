//! What `cera tiers` shows.

use crate::features::CpuFeatures;
use crate::probe::{self, Arch, CpuInfo, ProbeNote};
use crate::settings::{SettingRow, Settings};
use crate::tier::{CpuTier, TierChoice, TierError, TierReason, TierStatus};
use crate::width::{Machine, Pinning, Width};

/// The CPU, the tier and the width of a process, with the reasons for both. Every part prints by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TiersReport {
    /// The architecture.
    pub arch: Arch,
    /// What the CPU calls itself, where it says so.
    pub model: Option<String>,
    /// The features found, among those that some tier needs or may come to need.
    pub features: CpuFeatures,
    /// The tier that runs.
    pub tier: CpuTier,
    /// Why this one.
    pub reason: TierReason,
    /// Every tier, with what it lacks here.
    pub tiers: Vec<TierStatus>,
    /// The number of threads, and why.
    pub width: Width,
    /// The workers that are bound to cores, and why.
    pub pinning: Pinning,
    /// Every setting.
    pub settings: Vec<SettingRow>,
    /// What a user should know about features that are not there.
    pub notes: Vec<ProbeNote>,
}

impl TiersReport {
    /// The report for this process under these settings.
    ///
    /// # Errors
    /// [`TierError::Unavailable`] if the settings force a tier that cannot run here.
    pub fn new(settings: &Settings) -> Result<TiersReport, TierError> {
        Ok(TiersReport::of(probe::native(), &TierChoice::detect(settings)?, &Machine::native(), settings))
    }

    fn of(cpu: &CpuInfo, choice: &TierChoice, machine: &Machine, settings: &Settings) -> TiersReport {
        let width = Width::choose(&settings.threads, machine.facts);
        TiersReport {
            arch: cpu.arch,
            model: cpu.model.clone(),
            features: cpu.features,
            tier: choice.tier(),
            reason: choice.reason(),
            tiers: choice.statuses().to_vec(),
            pinning: Pinning::choose(&settings.pin, &width, machine),
            width,
            settings: settings.rows(),
            notes: cpu.notes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_repeats_what_was_found() {
        let settings = Settings::from_lookup(|name| (name == "CERA_THREADS").then(|| "3".into())).unwrap();
        let report = TiersReport::new(&settings).unwrap();
        let cpu = probe::native();
        assert_eq!((report.arch, report.features), (cpu.arch, cpu.features));
        assert_eq!(report.reason, TierReason::BestAvailable);
        assert_eq!(report.tiers.iter().map(|s| s.tier).collect::<Vec<_>>(), CpuTier::ALL);
        assert!(report.tiers[report.tier as usize].usable());
        assert_eq!(report.width.threads, 3);
        assert_eq!(report.width.to_string(), "3 threads: set by CERA_THREADS");
        assert!(
            report.settings.iter().any(|row| row.name == "CERA_THREADS" && row.value.as_deref() == Some("3"))
        );
    }
}
