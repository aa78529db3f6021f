use super::*;

#[test]
fn names_are_distinct_and_lead_back() {
    for (i, feature) in CpuFeature::ALL.into_iter().enumerate() {
        assert_eq!(feature as usize, i);
        assert_eq!(CpuFeature::from_name(feature.name()), Some(feature));
    }
    for other in ["", "AVX2", "avx2 ", "avx512_vnni", "sse9"] {
        assert_eq!(CpuFeature::from_name(other), None, "{other:?}");
    }
}

#[test]
fn a_set_holds_what_was_put_in() {
    let set = CpuFeatures::from_names(&["fma", "avx", "i8mm"]);
    assert_eq!(set.iter().map(CpuFeature::name).collect::<Vec<_>>(), ["avx", "fma", "i8mm"]);
    assert_eq!(set.to_string(), "avx, fma, i8mm");
    assert_eq!(set, [CpuFeature::I8mm, CpuFeature::Avx, CpuFeature::Fma].into_iter().collect());
    assert!(set.contains(CpuFeature::Avx) && !set.contains(CpuFeature::Avx2));
    assert_eq!(set.without(CpuFeature::Fma), CpuFeatures::from_names(&["avx", "i8mm"]));
    assert_eq!(
        set.difference(CpuFeatures::from_names(&["avx", "neon"])),
        CpuFeatures::from_names(&["fma", "i8mm"])
    );
    assert!(set.contains_all(CpuFeatures::from_names(&["avx"])) && set.contains_all(CpuFeatures::NONE));
    assert!(!set.contains_all(CpuFeatures::from_names(&["avx", "neon"])));
    assert!(CpuFeatures::NONE.is_empty() && CpuFeatures::NONE.to_string().is_empty());
}

#[test]
#[should_panic(expected = "does not know")]
fn an_unknown_name_is_refused() {
    let _ = CpuFeatures::from_names(&["avx", "banana"]);
}
