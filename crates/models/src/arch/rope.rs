//! Frequencies of the rotary embedding.

use super::source::Source;
use crate::ModelError;
use crate::gguf::shown;

/// The frequencies of `dim / 2` pairs, in radians per position, as the file's `rope.*` keys state them:
/// `base^(-2 i / dim)`, divided by the linear scaling factor and by the pair's factor in `rope_freqs.weight`.
///
/// Source: the GGUF specification, `[llm].rope.*`; Llama 3.1's factors come ready-made in the tensor.
pub(super) fn frequencies(source: &Source<'_>, dim: usize) -> Result<Vec<f32>, ModelError> {
    const FACTORS: &str = "rope_freqs.weight";
    let meta = source.meta();
    let base = meta.f32_or("{arch}.rope.freq_base", 10_000.0)?;
    let linear = match meta.str_opt("{arch}.rope.scaling.type")? {
        None => meta.f32_or("{arch}.rope.scale_linear", 1.0)?,
        Some("none") => 1.0,
        Some("linear") => meta.f32("{arch}.rope.scaling.factor")?,
        Some(other) => {
            return Err(source.unsupported(format!("RoPE scaling {} (rope.scaling.type)", shown(other))));
        }
    };
    let pairs = dim / 2;
    let factors = if source.has(FACTORS) { source.values(FACTORS, pairs)? } else { vec![1.0; pairs] };
    for (what, value) in [("rope.freq_base", base), ("the RoPE scaling factor", linear)] {
        source.expect_positive(what, value)?;
    }
    for &factor in &factors {
        source.expect_positive(FACTORS, factor)?;
    }
    let (base, linear) = (f64::from(base), f64::from(linear));
    let frequency = |(i, &factor): (usize, &f32)| {
        (libm::pow(base, -2.0 * i as f64 / dim as f64) / linear / f64::from(factor)) as f32
    };
    Ok(factors.iter().enumerate().map(frequency).collect())
}
