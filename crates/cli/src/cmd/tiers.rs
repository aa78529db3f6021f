//! `cera tiers`: the CPU, the chosen tier and why, what every other tier lacks, the kernel table.

use std::fmt::Write;

use anyhow::Result;
use cera_core::{KernelTable, Settings, TierChoice, TiersReport};
use serde::Serialize;

use crate::output;

/// Arguments of `cera tiers`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    arch: String,
    cpu: Option<String>,
    features: Vec<String>,
    chosen: &'static str,
    reason: String,
    threads: usize,
    threads_reason: String,
    pinning: String,
    tiers: Vec<Tier>,
    kernels: Vec<String>,
    settings: Vec<Setting>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Tier {
    label: &'static str,
    available: bool,
    requires: Vec<String>,
    lacks: String,
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    meaning: &'static str,
    default: &'static str,
    value: Option<String>,
    source: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let settings = Settings::from_env()?;
    let table = KernelTable::new(&TierChoice::detect(&settings)?);
    let report = report(&TiersReport::new(&settings)?, &table);
    if args.json { output::print_json(&report) } else { output::print(&text(&report)?) }
}

fn report(found: &TiersReport, table: &KernelTable) -> Report {
    let names = |features: cera_core::CpuFeatures| features.iter().map(|f| f.to_string()).collect();
    let tiers = found.tiers.iter().map(|status| Tier {
        label: status.tier.label(),
        available: status.usable(),
        requires: names(status.tier.required()),
        lacks: status.lacks(),
    });
    let settings = found.settings.iter().map(|row| Setting {
        name: row.name,
        meaning: row.meaning,
        default: row.default,
        value: row.value.clone(),
        source: row.source.name().to_owned(),
    });
    Report {
        arch: found.arch.to_string(),
        cpu: found.model.clone(),
        features: names(found.features),
        chosen: found.tier.label(),
        reason: found.reason.to_string(),
        threads: found.width.threads,
        threads_reason: found.width.to_string(),
        pinning: found.pinning.to_string(),
        tiers: tiers.collect(),
        kernels: table.kernels().map(|kernel| kernel.to_string()).collect(),
        settings: settings.collect(),
        notes: found.notes.iter().map(ToString::to_string).collect(),
    }
}

fn text(report: &Report) -> Result<String> {
    let mut text = String::new();
    let cpu = report.cpu.as_deref().unwrap_or("unknown CPU");
    writeln!(text, "cpu       {cpu} ({})", report.arch)?;
    writeln!(text, "features  {}", report.features.join(" "))?;
    writeln!(text, "tier      {} ({})", report.chosen, report.reason)?;
    writeln!(text, "threads   {}", report.threads_reason)?;
    writeln!(text, "pinning   {}", report.pinning)?;
    for note in &report.notes {
        writeln!(text, "note      {note}")?;
    }
    writeln!(text, "\ntiers")?;
    let rows: Vec<Vec<String>> = report
        .tiers
        .iter()
        .map(|tier| {
            let mark = if tier.label == report.chosen { "*" } else { " " };
            let state = if tier.available { "available" } else { tier.lacks.as_str() };
            vec![format!("{mark} {}", tier.label), state.to_owned()]
        })
        .collect();
    text.push_str(&output::table(&rows, &[]));
    writeln!(text, "\nkernels")?;
    for kernel in &report.kernels {
        writeln!(text, "  {kernel}")?;
    }
    writeln!(text, "\nsettings")?;
    let rows: Vec<Vec<String>> = report
        .settings
        .iter()
        .map(|s| {
            let value = s.value.clone().unwrap_or_else(|| s.default.to_owned());
            vec![format!("  {}", s.name), value, format!("({})", s.source), s.meaning.to_owned()]
        })
        .collect();
    text.push_str(&output::table(&rows, &[]));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use cera_core::probe::{Arch, ProbeNote};
    use cera_core::width::{PinReason, Pinning, Width, WidthFacts, WidthReason};
    use cera_core::{CpuFeatures, CpuTier, TierGap, TierReason, TierStatus};

    use super::*;

    /// What is found on a Haswell that a hypervisor hides AVX2 of, where somebody forces the scalar tier.
    fn masked_haswell() -> TiersReport {
        let features = CpuFeatures::from_names(&["avx", "f16c", "fma"]);
        let of = |tier: CpuTier| {
            let gap = match tier.arch() {
                Some(Arch::X86_64) => TierGap::MissingFeatures(tier.required().difference(features)),
                Some(needs) => TierGap::OtherArch { needs, have: Arch::X86_64 },
                None => return TierStatus { tier, gaps: Vec::new() },
            };
            TierStatus { tier, gaps: vec![gap] }
        };
        let facts = WidthFacts { allowed: 4, online: Some(8), cores: None, quota: None };
        let forced = |name: &str| (name == "CERA_CPU_TIER").then(|| "scalar".into());
        TiersReport {
            arch: Arch::X86_64,
            model: Some("Example CPU".to_owned()),
            features,
            tier: CpuTier::Scalar,
            reason: TierReason::ForcedBy { variable: "CERA_CPU_TIER" },
            tiers: CpuTier::ALL.map(of).to_vec(),
            width: Width { threads: 4, reason: WidthReason::Affinity, facts },
            pinning: Pinning { cpus: vec![5, 6, 7], reason: PinReason::LittleCores },
            settings: Settings::from_lookup(forced).expect("valid settings").rows(),
            notes: vec![ProbeNote::MaskedByHypervisor],
        }
    }

    #[test]
    fn the_text_tells_features_tiers_the_choice_and_who_made_it() {
        let text = text(&report(&masked_haswell(), &KernelTable::scalar())).expect("text");
        let (head, rest) = text.split_once("\nkernels\n").expect("kernels");
        let expected = format!(
            "cpu       Example CPU (x86_64)
features  avx fma f16c
tier      scalar (forced by CERA_CPU_TIER)
threads   4 threads: the affinity mask allows 4 of 8 CPUs
pinning   workers 1 to 3 are bound to the CPUs 5, 6, 7: it keeps them off the slow cores
note      {}

tiers
* scalar        available
  avx2          this CPU lacks avx2
  avx512vnni    this CPU lacks avx2, avx512f, avx512bw, avx512dq, avx512vl, avx512vbmi, avx512vnni
  avx512bf16    this CPU lacks avx2, avx512f, avx512bw, avx512dq, avx512vl, avx512vbmi, avx512vnni, avx512bf16
  neon          it is for aarch64 and this is x86_64
  neon-dotprod  it is for aarch64 and this is x86_64
  neon-i8mm     it is for aarch64 and this is x86_64
",
            ProbeNote::MaskedByHypervisor
        );
        assert_eq!(head, expected);
        let (kernels, settings) = rest.split_once("\nsettings\n").expect("settings");
        assert!(kernels.lines().all(|line| line.starts_with("  scalar-")), "{kernels}");
        let forced = settings.lines().next().unwrap_or_default();
        assert!(
            forced.starts_with("  CERA_CPU_TIER")
                && forced.contains("scalar")
                && forced.contains("(environment)")
        );
    }
}
