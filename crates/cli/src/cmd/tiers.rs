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
    let report = report()?;
    if args.json { output::print_json(&report) } else { output::print(&text(&report)?) }
}

fn report() -> Result<Report> {
    let settings = Settings::from_env()?;
    let found = TiersReport::new(&settings)?;
    let table = KernelTable::new(&TierChoice::detect(&settings)?);
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
    Ok(Report {
        arch: found.arch.to_string(),
        cpu: found.model.clone(),
        features: names(found.features),
        chosen: found.tier.label(),
        reason: found.reason.to_string(),
        threads: found.width.threads,
        threads_reason: found.width.to_string(),
        tiers: tiers.collect(),
        kernels: table.kernels().map(|kernel| kernel.to_string()).collect(),
        settings: settings.collect(),
        notes: found.notes.iter().map(ToString::to_string).collect(),
    })
}

fn text(report: &Report) -> Result<String> {
    let mut text = String::new();
    let cpu = report.cpu.as_deref().unwrap_or("unknown CPU");
    writeln!(text, "cpu       {cpu} ({})", report.arch)?;
    writeln!(text, "features  {}", report.features.join(" "))?;
    writeln!(text, "tier      {} ({})", report.chosen, report.reason)?;
    writeln!(text, "threads   {}", report.threads_reason)?;
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
