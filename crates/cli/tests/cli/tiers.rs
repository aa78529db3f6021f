//! The choice of the tier and of the number of threads, as the environment asks for it.

use std::ffi::OsStr;

use serde_json::Value;

use crate::program::{Run, cera, fixture, json};

const TIER: &str = "CERA_CPU_TIER";
const THREADS: &str = "CERA_THREADS";
const PIN: &str = "CERA_PIN";
const SPIN: &str = "CERA_SPIN_US";
const LOG: &str = "CERA_LOG";
const TIERS: &str = "scalar, avx2, avx512vnni, avx512bf16, neon, neon-dotprod, neon-i8mm";

/// What every command that computes or speaks of kernels says when the variable has this value.
fn refusal(variable: &str, value: impl AsRef<OsStr>) -> String {
    let folder = crate::program::Folder::new();
    let (model, output) = (fixture("quant/model-Q4_0.gguf"), folder.path("out"));
    let mut tiers = cera();
    tiers.arg("tiers");
    let mut inspect = cera();
    inspect.arg("inspect").arg(&model);
    let mut logits = cera();
    logits.arg("logits").arg("-m").arg(&model).args(["--tokens", "1", "-o"]).arg(&output);
    let messages =
        [tiers, inspect, logits].map(|mut command| Run::of(command.env(variable, &value)).failure());
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    assert!(!output.exists());
    messages.into_iter().next().unwrap()
}

/// The report of `cera tiers` where the variable has this value.
fn report(variable: &str, value: &str) -> Value {
    json(cera().arg("tiers").env(variable, value))
}

/// The report of `cera tiers` without settings.
fn plain_report() -> Value {
    json(cera().arg("tiers"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

#[test]
fn a_tier_that_does_not_exist_is_refused_with_those_that_do() {
    for label in
        ["banana", "AVX2", "", "avx512_vnni", " scalar", "scalar,avx2", "Scalar", "neon_dotprod", "sse"]
    {
        let expected = format!("CERA_CPU_TIER: {label:?} is not a CPU tier; the tiers are {TIERS}");
        assert_eq!(refusal(TIER, label), expected);
    }
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_unicode_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    for variable in [TIER, THREADS, PIN, SPIN, LOG] {
        let message = refusal(variable, OsStr::from_bytes(b"\xff"));
        assert_eq!(message, format!("{variable}: its value is not valid Unicode"));
    }
}

#[test]
fn a_tier_that_cannot_run_here_is_refused_with_what_is_missing() {
    let report = plain_report();
    let usable: Vec<&str> = list(&report["tiers"])
        .iter()
        .filter(|tier| tier["available"] == true)
        .map(|tier| text(&tier["label"]))
        .collect();
    let mut refused = 0;
    for tier in list(&report["tiers"]).iter().filter(|tier| tier["available"] == false) {
        let (label, lacks) = (text(&tier["label"]), text(&tier["lacks"]));
        assert!(!lacks.is_empty(), "{tier}");
        let head = format!("the CPU tier {label}, forced by CERA_CPU_TIER, cannot run: {lacks}");
        assert_eq!(refusal(TIER, label), format!("{head}; usable here: {}", usable.join(", ")));
        refused += 1;
    }
    let (foreign, says) = match std::env::consts::ARCH {
        "x86_64" => ("neon", "it is for aarch64 and this is x86_64"),
        _ => ("avx2", "it is for x86_64 and this is aarch64"),
    };
    assert!(refusal(TIER, foreign).contains(says));
    // At least those of the other architecture.
    assert!(refused >= 3);
}

/// Whether programs run on an emulated AArch64 processor, which `QEMU_CPU` names.
fn aarch64_is_emulated() -> bool {
    std::env::var("CERA_TEST_RUNNER").is_ok_and(|runner| runner.starts_with("qemu-aarch64"))
}

#[test]
fn a_tier_above_an_emulated_processor_is_refused_with_the_features_that_it_lacks() {
    if !aarch64_is_emulated() {
        return;
    }
    let cases = [
        ("cortex-a53", "neon-dotprod", "dotprod"),
        ("cortex-a72", "neon-dotprod", "dotprod"),
        ("neoverse-n1", "neon-i8mm", "i8mm"),
        ("cortex-a72", "neon-i8mm", "dotprod, i8mm"),
    ];
    for (cpu, tier, lacks) in cases {
        let usable = if cpu == "neoverse-n1" { "scalar, neon, neon-dotprod" } else { "scalar, neon" };
        let expected = format!(
            "the CPU tier {tier}, forced by CERA_CPU_TIER, cannot run: this CPU lacks {lacks}; usable here: {usable}"
        );
        let model = fixture("quant/model-Q4_0.gguf");
        let folder = crate::program::Folder::new();
        let mut tiers = cera();
        tiers.arg("tiers");
        let mut logits = cera();
        logits.arg("logits").arg("-m").arg(&model).args(["--tokens", "1", "-o"]).arg(folder.path("out"));
        for mut command in [tiers, logits] {
            let run = Run::of(command.env("QEMU_CPU", cpu).env(TIER, tier));
            assert_eq!(run.failure(), expected, "{tier} on {cpu}");
        }
    }
}

#[test]
fn the_best_tier_of_an_emulated_processor_is_chosen_and_runs() {
    if !aarch64_is_emulated() {
        return;
    }
    let cases = [
        ("cortex-a53", "neon"),
        ("cortex-a72", "neon"),
        ("neoverse-n1", "neon-dotprod"),
        ("max", "neon-i8mm"),
    ];
    let folder = crate::program::Folder::new();
    for (cpu, tier) in cases {
        let report = json(cera().arg("tiers").env("QEMU_CPU", cpu));
        assert_eq!(report["chosen"], tier, "{cpu}");
        for format in ["Q4_0", "Q6_K"] {
            let model = fixture(&format!("quant/model-{format}.gguf"));
            let out = folder.path(&format!("{cpu}-{format}"));
            let mut logits = cera();
            logits.arg("logits").arg("-m").arg(&model).args(["--tokens", "1,2,3,4,5", "-o"]).arg(&out);
            Run::of(logits.env("QEMU_CPU", cpu)).success();
        }
    }
}

#[test]
fn a_tier_that_can_run_here_can_be_forced() {
    let found = plain_report();
    assert_eq!(found["reason"], "the best that this CPU and this build have");
    for tier in list(&found["tiers"]).iter().filter(|tier| tier["available"] == true) {
        assert_eq!(tier["lacks"], "", "{tier}");
        let forced = report(TIER, text(&tier["label"]));
        assert_eq!(
            (&forced["chosen"], &forced["reason"]),
            (&tier["label"], &Value::from("forced by CERA_CPU_TIER"))
        );
        let setting = list(&forced["settings"]).iter().find(|setting| setting["name"] == TIER).unwrap();
        assert_eq!((&setting["value"], &setting["source"]), (&tier["label"], &Value::from("environment")));
        let prefix = format!("{}-", text(&tier["label"]));
        let own = list(&forced["kernels"]).iter().filter(|kernel| text(kernel).starts_with(&prefix)).count();
        assert!(own > 0, "{} has no kernel of its own", tier["label"]);
        let scalar: Vec<&str> = list(&forced["kernels"])
            .iter()
            .map(text)
            .filter(|kernel| kernel.starts_with("scalar-"))
            .collect();
        assert!(tier["label"] == "scalar" || scalar.is_empty(), "{} takes {scalar:?}", tier["label"]);
    }
    assert_eq!(report(TIER, "scalar")["chosen"], "scalar");
}

#[test]
fn the_report_has_what_its_readers_look_for() {
    let report = plain_report();
    assert_eq!(report["arch"], std::env::consts::ARCH);
    assert!(report["threads"].as_u64().unwrap() >= 1);
    let labels: Vec<&str> = list(&report["tiers"]).iter().map(|tier| text(&tier["label"])).collect();
    assert_eq!(labels.join(", "), TIERS);
    let chosen = list(&report["tiers"]).iter().find(|tier| tier["label"] == report["chosen"]).unwrap();
    assert_eq!(chosen["available"], true);
    let features = list(&report["features"]);
    for tier in list(&report["tiers"]) {
        let missing: Vec<&str> =
            list(&tier["requires"]).iter().filter(|f| !features.contains(f)).map(text).collect();
        // A tier of this architecture lacks exactly the features that the CPU lacks.
        let lacks = text(&tier["lacks"]);
        if !lacks.contains("this is ") {
            assert_eq!(lacks.contains("this CPU lacks"), !missing.is_empty(), "{tier}");
            assert!(missing.iter().all(|feature| lacks.contains(feature)), "{tier}");
        }
    }
    // Two kernels a weight format, a quantizer an activation format, and the operations between matrices.
    let kernels: Vec<&str> = list(&report["kernels"]).iter().map(text).collect();
    for op in ["gemm", "gemv"] {
        let served = kernels.iter().filter(|kernel| kernel.contains(&format!("-{op}-"))).count();
        assert_eq!(served, cera_quant::Format::COUNT, "{op}");
    }
    let mut names = kernels.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), kernels.len());
}

#[test]
fn the_text_says_what_the_json_says() {
    let report = plain_report();
    let text_report = Run::of(cera().arg("tiers")).success();
    let line = format!("tier      {} ({})", text(&report["chosen"]), text(&report["reason"]));
    assert!(text_report.contains(&line), "{text_report}");
    for kernel in list(&report["kernels"]) {
        assert!(text_report.contains(text(kernel)), "{kernel}");
    }
    for tier in list(&report["tiers"]) {
        assert!(text_report.contains(text(&tier["lacks"])), "{tier}");
    }
}

#[test]
fn a_number_of_threads_that_is_none_is_refused() {
    for value in ["", "0", "-1", "+2", "1.5", "two", "2 ", "0x2", "4097", "99999999999999999999"] {
        let expected = format!(
            "CERA_THREADS: {value:?} is not a number of threads; expected a whole number from 1 to 4096"
        );
        assert_eq!(refusal(THREADS, value), expected);
    }
}

#[test]
fn a_number_of_threads_is_followed() {
    for value in ["1", "2", "3", "4096"] {
        let report = report(THREADS, value);
        assert_eq!(report["threads"].to_string(), value);
        assert!(text(&report["threads_reason"]).ends_with("set by CERA_THREADS"), "{report}");
    }
}

#[test]
fn every_setting_is_listed_with_where_it_comes_from() {
    let report = json(cera().arg("tiers").env(PIN, "off").env(SPIN, "0").env(LOG, "error"));
    let rows: Vec<[&str; 3]> = list(&report["settings"])
        .iter()
        .map(|row| [text(&row["name"]), row["value"].as_str().unwrap_or("-"), text(&row["source"])])
        .collect();
    let expected = [
        [TIER, "-", "default"],
        [THREADS, "-", "default"],
        [PIN, "off", "environment"],
        [SPIN, "0", "environment"],
        [LOG, "error", "environment"],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn other_wrong_settings_are_refused() {
    for value in ["", "ON", "true"] {
        let expected =
            format!("CERA_PIN: {value:?} is not a way to bind workers to cores; expected auto, off or on");
        assert_eq!(refusal(PIN, value), expected);
    }
    for value in ["", "-1", "1us", "1000001"] {
        let message = refusal(SPIN, value);
        assert!(
            message.starts_with(&format!("CERA_SPIN_US: {value:?} is not a number of micro")),
            "{message}"
        );
    }
    for value in ["", "cera_core=loud", "a=b=c"] {
        let message = refusal(LOG, value);
        assert!(
            message.starts_with(&format!("CERA_LOG: {value:?} is not a filter of messages")),
            "{message}"
        );
    }
    let message = refusal(LOG, "cera_core=loud");
    assert_eq!(message.matches("error parsing level filter").count(), 1, "{message}");
}

#[test]
fn the_log_tells_the_choices_on_standard_error() {
    let run = Run::of(cera().arg("tiers").env(LOG, "cera_core=debug").env(TIER, "scalar"));
    assert!(run.code == Some(0) && run.stderr.contains("chose the CPU tier tier=\"scalar\""), "{run:?}");
}

/// Whether this is a kernel of a lower tier that has all the instructions that the tier could use for it: dot products of
/// bytes serve neither floats nor quantizers, matrix products nothing of one token.
fn shares(tier: &str, kernel: &str) -> bool {
    let reads_floats = ["-f32x", "-f16x", "-bf16x"].iter().any(|format| kernel.contains(format));
    match tier {
        "avx512bf16" => kernel.starts_with("avx512vnni-") && !kernel.contains("-bf16x"),
        "neon-dotprod" => kernel.starts_with("neon-") && reads_floats,
        "neon-i8mm" => {
            kernel.starts_with("neon-dotprod-gemv-") || kernel.starts_with("neon-") && reads_floats
        }
        _ => false,
    }
}

/// Nothing narrower is taken without being written down in [`shares`].
#[test]
fn no_tier_takes_a_narrower_kernel_than_it_has() {
    let report = plain_report();
    for tier in list(&report["tiers"]).iter().filter(|tier| tier["available"] == true) {
        let label = text(&tier["label"]);
        let forced = self::report(TIER, label);
        for kernel in list(&forced["kernels"]).iter().map(text) {
            let lower = shares(label, kernel);
            assert!(lower || kernel.starts_with(&format!("{label}-")), "{label} takes {kernel}");
        }
    }
}

/// The mask is a thread's, and its children have it.
#[cfg(target_os = "linux")]
#[test]
fn the_affinity_mask_bounds_the_default_number_of_threads() {
    let cores = core_affinity::get_core_ids().expect("an affinity mask");
    let (first, allowed) = (cores[0], cores.len());
    let pinned = std::thread::spawn(move || {
        assert!(core_affinity::set_for_current(first));
        (plain_report(), self::report(THREADS, "3"))
    });
    let (default, asked) = pinned.join().unwrap();
    assert_eq!(default["threads"], 1, "{default}");
    let reason = text(&default["threads_reason"]);
    assert!(allowed == 1 || reason.starts_with("1 thread: the affinity mask allows 1 of "), "{reason}");
    // What is asked for is taken.
    assert_eq!(asked["threads"], 3);
}

/// Memory for some threads with large stacks: one that the system refuses is an error, not the end of the process. What is
/// less than a stack is left for everything else that a thread takes when it begins.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_the_system_refuses_are_an_error() {
    if std::env::var("CERA_TEST_RUNNER").is_ok_and(|runner| !runner.is_empty()) {
        // An emulator needs the memory for itself.
        return;
    }
    let folder = crate::program::Folder::new();
    let output = folder.path("out");
    let program = cera();
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -v 300000; exec \"$@\"", "sh"]).arg(program.get_program());
    limited.arg("logits").arg("-m").arg(fixture("quant/model-Q4_0.gguf")).args(["--tokens", "1", "-o"]);
    limited.arg(&output).env("RUST_MIN_STACK", "67108864").env(THREADS, "4096").env_remove(TIER);
    let message = Run::of(&mut limited).failure();
    assert!(message.starts_with("worker ") && message.contains(" cannot be started: "), "{message}");
    assert!(!output.exists());
}
