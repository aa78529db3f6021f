//! Which tier runs, and why no other.

use std::fmt;

use crate::backends::Build;
use crate::features::CpuFeatures;
use crate::probe::Arch;
use crate::probe::{self, CpuInfo};
use crate::settings::{CPU_TIER_VARIABLE, Settings};
use crate::tier::{CpuTier, TierError};

/// Something that keeps a tier from running. It prints as a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierGap {
    /// The tier is of another architecture.
    OtherArch {
        /// The architecture of the tier.
        needs: Arch,
        /// The architecture of this build.
        have: Arch,
    },
    /// No kernel has been written for the tier.
    NoKernels,
    /// The build lacks the Cargo feature of the tier.
    NotCompiled {
        /// The Cargo feature.
        cargo_feature: &'static str,
    },
    /// The CPU, or its operating system, lacks these features.
    MissingFeatures(CpuFeatures),
    /// The CPU has the instructions of the tier, but they compute other bits than the numerics ask for.
    FailedSelfTest,
}

impl fmt::Display for TierGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TierGap::OtherArch { needs, have } => write!(f, "it is for {needs} and this is {have}"),
            TierGap::NoKernels => f.write_str("this version of cera has no kernels for it"),
            TierGap::NotCompiled { cargo_feature } => {
                write!(f, "this build lacks the Cargo feature `{cargo_feature}`")
            }
            TierGap::MissingFeatures(features) => write!(f, "this CPU lacks {features}"),
            TierGap::FailedSelfTest => f.write_str("its instructions failed their self-test on this CPU"),
        }
    }
}

/// The gaps as one clause.
pub(super) fn join_gaps(gaps: &[TierGap]) -> String {
    gaps.iter().map(TierGap::to_string).collect::<Vec<_>>().join(", and ")
}

/// Why the tier of a [`TierChoice`] was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierReason {
    /// It is the best that the CPU and the build have.
    BestAvailable,
    /// An environment variable forces it.
    ForcedBy {
        /// The variable.
        variable: &'static str,
    },
    /// The program asked for this tier and no other.
    AskedByCaller,
}

impl fmt::Display for TierReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TierReason::BestAvailable => f.write_str("the best that this CPU and this build have"),
            TierReason::ForcedBy { variable } => write!(f, "forced by {variable}"),
            TierReason::AskedByCaller => f.write_str("asked for by the program"),
        }
    }
}

/// A tier and what keeps it from running; nothing if it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierStatus {
    /// The tier.
    pub tier: CpuTier,
    /// What it lacks here.
    pub gaps: Vec<TierGap>,
}

impl TierStatus {
    /// Whether the tier can run here.
    pub fn usable(&self) -> bool {
        self.gaps.is_empty()
    }

    /// What the tier lacks, as one clause; empty if nothing.
    pub fn lacks(&self) -> String {
        join_gaps(&self.gaps)
    }

    fn of(tier: CpuTier, cpu: &CpuInfo, build: &Build) -> TierStatus {
        if let Some(needs) = tier.arch().filter(|&needs| needs != build.arch) {
            return TierStatus { tier, gaps: vec![TierGap::OtherArch { needs, have: build.arch }] };
        }
        let mut gaps = Vec::new();
        if !build.implemented.contains(&tier) {
            gaps.push(TierGap::NoKernels);
        } else if let Some(cargo_feature) = tier.cargo_feature().filter(|f| !build.has_cargo_feature(f)) {
            gaps.push(TierGap::NotCompiled { cargo_feature });
        }
        let missing = tier.required().difference(cpu.features);
        if !missing.is_empty() {
            gaps.push(TierGap::MissingFeatures(missing));
        }
        if gaps.is_empty() && !(build.passes_self_test)(tier) {
            gaps.push(TierGap::FailedSelfTest);
        }
        TierStatus { tier, gaps }
    }
}

/// A tier that can run here. Only a probe of the real CPU makes one, so that to hold one proves that every feature of
/// [`CpuTier::required`] is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierChoice {
    tier: CpuTier,
    reason: TierReason,
    statuses: Vec<TierStatus>,
}

impl TierChoice {
    /// The tier that the settings force, or the best that this CPU and this build have.
    ///
    /// # Errors
    /// [`TierError::Unavailable`] if the settings force a tier that cannot run here.
    pub fn detect(settings: &Settings) -> Result<TierChoice, TierError> {
        let forced =
            settings.cpu_tier.get().map(|&tier| (tier, TierReason::ForcedBy { variable: CPU_TIER_VARIABLE }));
        let choice = TierChoice::native(forced)?;
        tracing::debug!(tier = choice.tier.label(), reason = %choice.reason, "chose the CPU tier");
        Ok(choice)
    }

    /// This tier, whatever the settings say: for comparing tiers within one process.
    ///
    /// # Errors
    /// [`TierError::Unavailable`] if it cannot run here.
    pub fn of(tier: CpuTier) -> Result<TierChoice, TierError> {
        TierChoice::native(Some((tier, TierReason::AskedByCaller)))
    }

    fn native(asked: Option<(CpuTier, TierReason)>) -> Result<TierChoice, TierError> {
        let cpu = probe::native();
        TierChoice::select(asked, cpu, &Build::this(cpu.arch))
    }

    /// The tier asked for, or the best, of a CPU and a build that need not be the real ones.
    pub(crate) fn select(
        asked: Option<(CpuTier, TierReason)>,
        cpu: &CpuInfo,
        build: &Build,
    ) -> Result<TierChoice, TierError> {
        let statuses = CpuTier::ALL.map(|tier| TierStatus::of(tier, cpu, build)).to_vec();
        let usable = || statuses.iter().filter(|s| s.usable()).map(|s| s.tier);
        match asked {
            None => {
                let tier = usable().next_back().unwrap_or(CpuTier::Scalar);
                Ok(TierChoice { tier, reason: TierReason::BestAvailable, statuses })
            }
            Some((tier, reason)) => {
                let gaps = &statuses[tier as usize].gaps;
                if gaps.is_empty() {
                    Ok(TierChoice { tier, reason, statuses })
                } else {
                    Err(TierError::Unavailable {
                        tier,
                        reason,
                        gaps: gaps.clone(),
                        usable: usable().collect(),
                    })
                }
            }
        }
    }

    /// The tier.
    pub fn tier(&self) -> CpuTier {
        self.tier
    }

    /// Why this one.
    pub fn reason(&self) -> TierReason {
        self.reason
    }

    /// Why this machine computes many times slower than others of its kind, if it does and nobody asked for it: no tier
    /// with vector code runs.
    pub(crate) fn slowness(&self, cpu: &CpuInfo) -> Option<String> {
        if self.tier != CpuTier::Scalar || self.reason != TierReason::BestAvailable {
            return None;
        }
        // The others need more.
        let least = self.statuses.iter().find(|status| status.tier.arch() == Some(cpu.arch));
        let lacks = least.map(|status| format!("{}: {}", status.tier, status.lacks())).into_iter();
        let mut reasons: Vec<String> = lacks.chain(cpu.notes.iter().map(ToString::to_string)).collect();
        if reasons.is_empty() {
            reasons.push(format!("cera has none for {}", cpu.arch));
        }
        Some(format!(
            "no tier with vector code runs here, which is many times slower ({})",
            reasons.join("; ")
        ))
    }

    /// Whether a tier could run here.
    pub(crate) fn usable(&self, tier: CpuTier) -> bool {
        self.statuses.iter().any(|status| status.tier == tier && status.usable())
    }

    /// Every tier, in the order of [`CpuTier::ALL`], with what it lacks here.
    pub fn statuses(&self) -> &[TierStatus] {
        &self.statuses
    }
}
