//! Rotary embeddings as the file's `rope.*` keys and tensors state them.
//!
//! Source: the GGUF specification, `[llm].rope.*`; Chen et al., "Extending Context Window of Large Language Models via
//! Positional Interpolation", 2023 (linear); Peng et al., "YaRN: Efficient Context Window Extension of Large Language
//! Models", 2023; Ding et al., "LongRoPE", 2024. Llama 3.1's factors come ready-made in a tensor.

use std::f64::consts::PI;

use cera_core::graph::{LongRope, RopeInfo};
use cera_quant::ops::RopePairs;

use super::params::Params;
use super::source::Source;
use crate::ModelError;
use crate::gguf::shown;

const LOG_MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";

/// How positions are stretched for contexts longer than those of training.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scaling {
    /// Every frequency is divided by the factor.
    Linear(f64),
    /// Low frequencies are divided by the factor, high ones stay, those in between are mixed.
    Yarn {
        factor: f64,
        /// The context of training.
        original: f64,
        /// Rotations over that context above which a frequency stays, and below which it is divided.
        betas: (f64, f64),
        /// For each unit of the factor's logarithm, what is added to 1 for the root of a factor of attention scores.
        log_multiplier: Option<f64>,
    },
}

/// The rotary embedding of all layers, or of those without a window where these have their own.
pub(super) fn embedding(
    source: &Source<'_>,
    params: &Params,
    pairs: RopePairs,
) -> Result<RopeInfo, ModelError> {
    let scaling = Scaling::read(source, params)?;
    if let Scaling::Yarn { log_multiplier: Some(_), .. } = scaling {
        return Err(source.unsupported(LOG_MULTIPLIER));
    }
    // As many frequencies as a head has pairs: only a tensor bounds a head.
    source.check_heads(params)?;
    stretched(source, params, &scaling, (params.k_dim, pairs))
}

/// The rotary embedding of heads that are rotated as a whole, whose width some tensor bounds, and the factor that it asks of
/// attention scores.
///
/// Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 3.1.4.
pub(super) fn of_whole_heads(
    source: &Source<'_>,
    params: &Params,
    pairs: RopePairs,
) -> Result<(RopeInfo, f32), ModelError> {
    let scaling = Scaling::read(source, params)?;
    let rope = stretched(source, params, &scaling, (params.rope_dim, pairs))?;
    match scaling {
        Scaling::Yarn { factor, log_multiplier: Some(multiplier), .. } => {
            let root = 1.0 + multiplier * libm::log(factor).max(0.0);
            // The factor of the scores stands for that of cosines and sines.
            let magnitude = f64::from(rope.magnitude) / scaling.magnitude();
            Ok((RopeInfo { magnitude: magnitude as f32, ..rope }, (root * root) as f32))
        }
        _ => Ok((rope, 1.0)),
    }
}

/// The rotary embedding of heads of `head_dim` elements with a scaling.
fn stretched(
    source: &Source<'_>,
    params: &Params,
    scaling: &Scaling,
    (head_dim, pairs): (usize, RopePairs),
) -> Result<RopeInfo, ModelError> {
    let base = base(source)?;
    let dim = params.rope_dim;
    let frequencies = scaling.frequencies(dim, f64::from(base));
    let divided = |name: &str| -> Result<Vec<f32>, ModelError> {
        let factors = source.values(name, dim / 2)?;
        for &factor in &factors {
            source.expect_positive(name, factor)?;
        }
        Ok(frequencies.iter().zip(factors).map(|(f, factor)| (f / f64::from(factor)) as f32).collect())
    };
    const FACTORS: &str = "rope_freqs.weight";
    const SHORT: &str = "rope_factors_short.weight";
    const LONG: &str = "rope_factors_long.weight";
    let mut rope = RopeInfo::new(frequencies.iter().map(|&f| f as f32).collect(), pairs, head_dim);
    if source.has(FACTORS) {
        rope.inv_freq = divided(FACTORS)?;
    } else if source.has(SHORT) || source.has(LONG) {
        rope.inv_freq = divided(SHORT)?;
        rope.long = Some(LongRope { beyond: params.original_context, inv_freq: divided(LONG)? });
    }
    let magnitude = source.factor("rope.scaling.attn_factor")?.unwrap_or(1.0);
    rope.magnitude = (f64::from(magnitude) * scaling.magnitude()) as f32;
    Ok(rope)
}

/// The base of the frequencies: `rope.freq_base`.
pub(super) fn base(source: &Source<'_>) -> Result<f32, ModelError> {
    Ok(source.factor("rope.freq_base")?.unwrap_or(10_000.0))
}

/// The rotary embedding of layers with a sliding window, which is never stretched: its base is `rope.freq_base_swa`, or
/// else `base`.
pub(super) fn of_windows(
    source: &Source<'_>,
    params: &Params,
    (base, pairs): (f32, RopePairs),
) -> Result<RopeInfo, ModelError> {
    let base = source.factor("rope.freq_base_swa")?.unwrap_or(base);
    source.check_heads(params)?;
    let frequencies = Scaling::Linear(1.0).frequencies(params.rope_dim, f64::from(base));
    Ok(RopeInfo::new(frequencies.into_iter().map(|f| f as f32).collect(), pairs, params.k_dim))
}

impl Scaling {
    fn read(source: &Source<'_>, params: &Params) -> Result<Scaling, ModelError> {
        let meta = source.meta();
        let factor = match meta.f32_opt("{arch}.rope.scaling.factor")? {
            Some(factor) => factor,
            None => meta.f32_or("{arch}.rope.scale_linear", 1.0)?,
        };
        // Some files state zero for none.
        let factor = if factor == 0.0 { 1.0 } else { factor };
        source.expect_positive("the RoPE scaling factor (rope.scaling.factor)", factor)?;
        match meta.str_opt("{arch}.rope.scaling.type")? {
            None | Some("linear") => Ok(Scaling::Linear(f64::from(factor))),
            // The factors of LongRoPE are tensors.
            Some("none" | "longrope") => Ok(Scaling::Linear(1.0)),
            Some("yarn") => {
                const EXTRAPOLATION: &str = "rope.scaling.yarn_ext_factor";
                if meta.has(&format!("{{arch}}.{EXTRAPOLATION}"))? {
                    return Err(source.unsupported(EXTRAPOLATION));
                }
                let log_multiplier = source.factor(LOG_MULTIPLIER)?.map(f64::from);
                let beta = |key: &str, default: f32| -> Result<f64, ModelError> {
                    Ok(f64::from(source.factor(key)?.unwrap_or(default)))
                };
                let betas =
                    (beta("rope.scaling.yarn_beta_fast", 32.0)?, beta("rope.scaling.yarn_beta_slow", 1.0)?);
                let original = params.original_context as f64;
                Ok(Scaling::Yarn { factor: f64::from(factor), original, betas, log_multiplier })
            }
            Some(other) => {
                Err(source.unsupported(format!("RoPE scaling {} (rope.scaling.type)", shown(other))))
            }
        }
    }

    /// The frequencies of `dim / 2` pairs in radians per position: `base^(-2 i / dim)`, stretched.
    fn frequencies(&self, dim: usize, base: f64) -> Vec<f64> {
        let pairs = (0..dim / 2).map(|i| (i as f64, libm::pow(base, -2.0 * i as f64 / dim as f64)));
        match *self {
            Scaling::Linear(factor) => pairs.map(|(_, f)| f / factor).collect(),
            Scaling::Yarn { factor, original, betas: (fast, slow), .. } => {
                // The pair that makes so many rotations over the context of training.
                let pair = |rotations: f64| {
                    dim as f64 * libm::log(original / (rotations * 2.0 * PI)) / (2.0 * libm::log(base))
                };
                let low = libm::floor(pair(fast)).max(0.0);
                let high = libm::ceil(pair(slow)).min(dim as f64 - 1.0);
                let stretched = |i: f64| ((i - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                pairs.map(|(i, f)| f / factor * stretched(i) + f * (1.0 - stretched(i))).collect()
            }
        }
    }

    /// The factor of cosines and sines.
    fn magnitude(&self) -> f64 {
        match *self {
            Scaling::Yarn { factor, .. } if factor > 1.0 => 0.1 * libm::log(factor) + 1.0,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests;
