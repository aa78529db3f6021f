#![allow(clippy::unwrap_used)]

use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use super::warn_if_slow;
use crate::backends::Build;
use crate::features::CpuFeatures;
use crate::probe::{Arch, CpuInfo, ProbeNote};
use crate::tier::{CpuTier, TierChoice, TierReason};

/// Keeps the messages of warnings.
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{value:?}");
    }
}

/// What is said on a machine with these features and notes.
fn said(arch: Arch, features: &[&str], notes: Vec<ProbeNote>, forced: Option<CpuTier>) -> Vec<String> {
    let cpu = CpuInfo { arch, model: None, features: CpuFeatures::from_names(features), notes };
    let build = Build { arch, cargo_features: &[("avx2", true), ("avx512", false)], ..Build::this(arch) };
    let asked = forced.map(|tier| (tier, TierReason::AskedByCaller));
    let choice = TierChoice::select(asked, &cpu, &build).unwrap();
    let messages = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Warnings(messages.clone()), || warn_if_slow(&choice, &cpu));
    messages.lock().unwrap().clone()
}

#[test]
fn a_machine_without_vector_code_says_so_once_and_why() {
    let masked = || vec![ProbeNote::MaskedByHypervisor];
    let [said_masked] = &said(Arch::X86_64, &["avx"], masked(), None)[..] else { panic!("one warning") };
    let why = format!("avx2: this CPU lacks avx2, fma, f16c; {}", ProbeNote::MaskedByHypervisor);
    assert!(
        said_masked.starts_with("no tier with vector code") && said_masked.contains(&why),
        "{said_masked}"
    );
    let [arm] = &said(Arch::Aarch64, &["neon"], Vec::new(), None)[..] else { panic!("one warning") };
    assert!(arm.contains("neon: ") && !arm.contains("avx2"), "{arm}");
    let [other] = &said(Arch::Other, &[], Vec::new(), None)[..] else { panic!("one warning") };
    assert!(other.contains("cera has none for "), "{other}");
}

#[test]
fn a_machine_with_vector_code_or_a_wish_says_nothing() {
    let haswell = ["avx", "avx2", "fma", "f16c"];
    assert!(said(Arch::X86_64, &haswell, Vec::new(), None).is_empty());
    assert!(said(Arch::X86_64, &haswell, Vec::new(), Some(CpuTier::Scalar)).is_empty());
    assert!(said(Arch::X86_64, &["avx"], Vec::new(), Some(CpuTier::Scalar)).is_empty());
}
