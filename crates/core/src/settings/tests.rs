use super::*;
use crate::tier::TierChoice;

fn settings(pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let lookup = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
    Settings::from_lookup(lookup).map_err(|e| e.to_string())
}

#[test]
fn nothing_set_is_all_default() {
    let s = settings(&[("CERA_OTHER", "1")]).unwrap();
    assert_eq!((s.cpu_tier.get(), s.cpu_tier.source()), (None, Source::Default));
    assert_eq!((s.threads.get(), s.threads.source()), (None, Source::Default));
}

#[test]
fn valid_values_are_taken() {
    let mut s = settings(&[("CERA_CPU_TIER", "neon-i8mm"), ("CERA_THREADS", "16")]).unwrap();
    assert_eq!((s.cpu_tier.get(), s.cpu_tier.source()), (Some(&CpuTier::NeonI8mm), Source::Environment));
    assert_eq!((s.threads.get().map(|t| t.get()), s.threads.source()), (Some(16), Source::Environment));
    s.threads.set_argument("4".parse().unwrap());
    assert_eq!((s.threads.get().map(|t| t.get()), s.threads.source()), (Some(4), Source::Argument));
    for valid in ["1", "007", "4096"] {
        assert!(settings(&[("CERA_THREADS", valid)]).is_ok(), "{valid}");
    }
}

#[test]
fn everything_else_is_an_error_that_says_what_is_valid() {
    let tiers = "scalar, avx2, avx512vnni, avx512bf16, neon, neon-dotprod, neon-i8mm";
    for wrong in ["", "banana", "AVX2", "avx512_vnni"] {
        let expected = format!("CERA_CPU_TIER: {wrong:?} is not a CPU tier; the tiers are {tiers}");
        assert_eq!(settings(&[("CERA_CPU_TIER", wrong)]), Err(expected));
    }
    for wrong in ["", "0", "-1", "+4", " 4", "4 ", "1.5", "four", "0x4", "4097", "99999999999999999999999"] {
        let expected = format!(
            "CERA_THREADS: {wrong:?} is not a number of threads; expected a whole number from 1 to 4096"
        );
        assert_eq!(settings(&[("CERA_THREADS", wrong)]), Err(expected));
    }
    for wrong in ["", "-1", "1.5", "60us", "1000001", "99999999999"] {
        let expected = format!(
            "CERA_SPIN_US: {wrong:?} is not a number of microseconds; expected a whole number from 0 to 1000000"
        );
        assert_eq!(settings(&[("CERA_SPIN_US", wrong)]), Err(expected));
    }
    for wrong in ["", "On", "yes", "0", "big", " auto"] {
        let expected =
            format!("CERA_PIN: {wrong:?} is not a way to bind workers to cores; expected auto, off or on");
        assert_eq!(settings(&[("CERA_PIN", wrong)]), Err(expected));
    }
    let empty = settings(&[("CERA_LOG", "")]).unwrap_err();
    assert!(empty.starts_with("CERA_LOG: \"\" is not a filter"), "{empty}");
}

#[test]
fn the_time_to_look_for_work_reaches_the_pool() {
    use std::time::Duration;
    for (value, micros) in [(None, 60), (Some("0"), 0), (Some("1000000"), 1_000_000)] {
        let pairs: Vec<_> =
            [("CERA_THREADS", "2")].into_iter().chain(value.map(|v| ("CERA_SPIN_US", v))).collect();
        let runtime = crate::Runtime::from_settings(&settings(&pairs).unwrap()).unwrap();
        assert_eq!((runtime.width(), runtime.pool.spin()), (2, Duration::from_micros(micros)));
    }
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_unicode_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let error = Settings::from_lookup(|_| Some(OsString::from_vec(vec![b'a', 0xFF]))).unwrap_err();
    assert_eq!(error, SettingsError::NotUnicode { name: "CERA_CPU_TIER" });
}

#[test]
fn rows_list_every_setting() {
    let rows = settings(&[("CERA_THREADS", "3")]).unwrap().rows();
    assert_eq!(
        rows.iter().map(|r| r.name).collect::<Vec<_>>(),
        [CPU_TIER_VARIABLE, THREADS_VARIABLE, PIN_VARIABLE, SPIN_VARIABLE, LOG_VARIABLE]
    );
    assert_eq!(rows[0].meaning, "The CPU tier to run.");
    assert_eq!((rows[0].value.as_deref(), rows[0].source.name()), (None, "default"));
    assert_eq!((rows[1].value.as_deref(), rows[1].source.name()), (Some("3"), "environment"));
    assert!(rows.iter().all(|r| !r.default.is_empty() && !r.meaning.is_empty()));
}

#[test]
fn a_forced_tier_reaches_the_choice() {
    let forced = TierChoice::detect(&settings(&[("CERA_CPU_TIER", "scalar")]).unwrap()).unwrap();
    assert_eq!(
        (forced.tier(), forced.reason().to_string()),
        (CpuTier::Scalar, "forced by CERA_CPU_TIER".to_owned())
    );
    let foreign = if std::env::consts::ARCH == "aarch64" { "avx2" } else { "neon" };
    let error =
        TierChoice::detect(&settings(&[("CERA_CPU_TIER", foreign)]).unwrap()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("the CPU tier {foreign}, forced by CERA_CPU_TIER, cannot run: ")),
        "{error}"
    );
}
