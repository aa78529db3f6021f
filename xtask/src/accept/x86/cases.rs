//! The cases that are compared with a peer, and what is asked of each.

use clap::ValueEnum;

use crate::accept::Check;
use crate::accept::peer::PeerName;

/// A model of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// A random llama with 0.97 G weights in layers.
    Llama1b(&'static str),
    /// SmolLM2-135M: the real one in Q4_1, a random one of its shape in other types.
    Smol(&'static str),
    /// A random mixture of experts of a shape.
    Mixture(&'static str, &'static str),
}

impl Model {
    /// The type.
    pub(super) fn mix(self) -> &'static str {
        match self {
            Model::Llama1b(mix) | Model::Smol(mix) | Model::Mixture(_, mix) => mix,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Model::Llama1b(mix) => format!("1B {mix}"),
            Model::Smol(mix) => format!("SmolLM2 {mix}"),
            Model::Mixture(shape, mix) => format!("{shape} {mix}"),
        }
    }
}

/// A prompt of so many tokens, or so many generated, after so many in the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) n_prompt: u32,
    pub(super) n_gen: u32,
    pub(super) depth: u32,
}

impl Test {
    const PREFILL: Test = Test { n_prompt: 512, n_gen: 0, depth: 0 };
    const DECODE: Test = Test { n_prompt: 0, n_gen: 128, depth: 0 };
    const DEEP_PREFILL: Test = Test { n_prompt: 512, n_gen: 0, depth: 8192 };
    const DEEP_DECODE: Test = Test { n_prompt: 0, n_gen: 64, depth: 8192 };

    pub(super) fn name(self) -> String {
        let kind = if self.n_prompt > 0 { "prefill" } else { "decode" };
        let tokens = self.n_prompt + self.n_gen;
        if self.depth > 0 { format!("{kind} {tokens} at {}", self.depth) } else { format!("{kind} {tokens}") }
    }
}

/// What is asked of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// The least ratio to the peer's better setting, in the median.
    pub(super) ratio: f64,
    /// The least lower end of the 95 % interval of that median.
    pub(super) ratio_low: Option<f64>,
    /// The least share of the machine's limit.
    pub(super) share: Option<f64>,
    /// Whether a token must stream no weights but those that it is multiplied by.
    pub(super) only_active: bool,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) check: Check,
    pub(super) model: Model,
    pub(super) test: Test,
    /// The tier that cera is told to use, if any.
    pub(super) tier: Option<&'static str>,
    /// The element type of the KV cache, as both name it.
    pub(super) kv: &'static str,
    /// Whether cera packs the weights.
    pub(super) repack: bool,
    /// The peer's repacking, off and on, as far as it is tried.
    pub(super) peer_repack: &'static [&'static str],
    pub(super) asked: Asked,
}

impl Case {
    fn new(check: Check, model: Model, test: Test, asked: Asked) -> Case {
        Case { check, model, test, tier: None, kv: "f16", repack: true, peer_repack: &["1", "0"], asked }
    }

    pub(super) fn peer(&self) -> PeerName {
        if self.tier == Some("avx2") { PeerName::LlamaBenchAvx2 } else { PeerName::LlamaBench }
    }

    pub(super) fn peer_label(&self) -> String {
        self.peer().to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Which case it is, without what the check says already.
    pub(super) fn label(&self) -> String {
        let kv = if self.kv == "f16" { String::new() } else { format!(", {} cache", self.kv) };
        let repack = if self.repack { "" } else { ", not repacked" };
        format!("{}{kv}{repack}", self.test.name())
    }

    /// The name of its verdicts.
    pub(super) fn name(&self) -> String {
        let check = self.check.name();
        format!("{check}-{}-{}", self.model.name(), self.label()).replace(", ", "-").replace(' ', "-")
    }

    /// Arguments that both programs take.
    pub(super) fn arguments(&self, threads: usize) -> Vec<String> {
        let Test { n_prompt, n_gen, depth } = self.test;
        let text = format!("-p {n_prompt} -n {n_gen} -d {depth} -r 1 -t {threads}");
        text.split(' ').map(str::to_owned).collect()
    }
}

/// Prefill on AVX-512: all of these reach this share of the peak.
const PREFILL: [&str; 10] =
    ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "MXFP4"];

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let ratio = |ratio| Asked { ratio, ..Asked::default() };
    let mut cases = Vec::new();
    for mix in PREFILL {
        let asked = Asked { ratio: 1.3, share: Some(0.62), ..Asked::default() };
        cases.push(Case::new(Check::Prefill, Model::Llama1b(mix), Test::PREFILL, asked));
    }
    for (mix, least) in [("F16", 1.1), ("BF16", 1.2)] {
        cases.push(Case::new(Check::Prefill, Model::Llama1b(mix), Test::PREFILL, ratio(least)));
    }
    for (mix, least) in [("Q4_0", 1.4), ("Q4_1", 1.4), ("Q4_K_M", 1.4), ("Q6_K", 1.4), ("Q8_0", 1.1)] {
        let case = Case::new(Check::Avx2, Model::Llama1b(mix), Test::PREFILL, ratio(least));
        cases.push(Case { tier: Some("avx2"), ..case });
    }
    for mix in PREFILL.into_iter().chain(["F16", "BF16"]) {
        let least = match mix {
            "Q8_0" | "Q5_K_M" => 1.2,
            "Q4_1" | "Q5_0" | "Q5_1" => 1.5,
            _ => 1.0,
        };
        let asked = Asked { ratio: least, ratio_low: Some(1.0), share: Some(0.88), ..Asked::default() };
        cases.push(Case::new(Check::Decode, Model::Llama1b(mix), Test::DECODE, asked));
    }
    for mix in ["Q4_0", "Q4_K_M", "Q8_0"] {
        let case = Case::new(Check::Unpacked, Model::Llama1b(mix), Test::DECODE, ratio(0.8));
        cases.push(Case { repack: false, peer_repack: &["0"], ..case });
    }
    for (mix, prefill, decode) in [("Q4_0", 2.0, 1.45), ("Q4_1", 4.0, 2.0)] {
        cases.push(Case::new(Check::Small, Model::Smol(mix), Test::PREFILL, ratio(prefill)));
        let asked = Asked { ratio: decode, share: Some(0.75), ..Asked::default() };
        cases.push(Case::new(Check::Small, Model::Smol(mix), Test::DECODE, asked));
    }
    // At this depth every sample begins with 8192 tokens of prefill, so that only the better of the peer's settings runs.
    let deep = |test, kv, least| {
        let case = Case::new(Check::Depth, Model::Llama1b("Q4_0"), test, ratio(least));
        Case { kv, peer_repack: &["1"], ..case }
    };
    cases.push(deep(Test::DEEP_PREFILL, "f16", 1.6));
    cases.extend(["f16", "q8_0"].map(|kv| deep(Test::DEEP_DECODE, kv, 1.2)));
    for shape in ["qwen3-30b-a3b", "qwen3-next-80b-a3b"] {
        for mix in ["Q4_0", "Q4_K_M"] {
            let case = |test, asked| Case::new(Check::Moe, Model::Mixture(shape, mix), test, asked);
            cases.push(case(Test::PREFILL, ratio(1.5)));
            let low = Asked { ratio: 1.0, ratio_low: Some(1.0), only_active: true, ..Asked::default() };
            cases.push(case(Test::DECODE, low));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let mut names: Vec<String> = all().iter().map(Case::name).collect();
        assert!(names.contains(&"prefill-1B-Q4_K_M-prefill-512".to_owned()), "{names:?}");
        assert!(names.contains(&"depth-1B-Q4_0-decode-64-at-8192-q8_0-cache".to_owned()), "{names:?}");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn arguments_are_those_of_both_benches() {
        let case = all().into_iter().find(|case| case.test == Test::DEEP_DECODE).expect("a case");
        assert_eq!(case.arguments(2).join(" "), "-p 0 -n 64 -d 8192 -r 1 -t 2");
    }
}
