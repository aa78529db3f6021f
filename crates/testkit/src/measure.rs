//! How far logits are from a reference, in the measures of `tests/fixtures/README.md`.

/// The distance of logits from a reference, over all positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// The largest absolute difference.
    pub max_abs: f64,
    /// The root mean square difference divided by the standard deviation of the reference.
    pub rel: f64,
    /// The smallest cosine between the two vectors of one position.
    pub cos: f64,
    /// The median of the cosines.
    pub median_cos: f64,
    /// The mean KL divergence from the reference distribution, natural logarithm.
    pub kl: f64,
}

impl Distance {
    /// The distance of `got` from `reference`, both rows of `width` elements.
    ///
    /// # Panics
    /// If the lengths differ or are not whole rows.
    pub fn new(got: &[f32], reference: &[f32], width: usize) -> Distance {
        assert_eq!(got.len(), reference.len(), "logits and reference differ in length");
        assert!(width > 0 && got.len().is_multiple_of(width), "{} is not whole rows of {width}", got.len());
        let square = |x: f64| x * x;
        let pairs = || got.iter().zip(reference).map(|(&g, &r)| (f64::from(g), f64::from(r)));
        let n = got.len() as f64;
        let mean = pairs().map(|(_, r)| r).sum::<f64>() / n;
        let deviation = (pairs().map(|(_, r)| square(r - mean)).sum::<f64>() / n).sqrt();
        let rms = (pairs().map(|(g, r)| square(g - r)).sum::<f64>() / n).sqrt();
        let rows = || got.chunks(width).zip(reference.chunks(width));
        let mut cosines: Vec<f64> = rows().map(|(g, r)| cosine(g, r)).collect();
        cosines.sort_by(f64::total_cmp);
        Distance {
            max_abs: pairs().map(|(g, r)| (g - r).abs()).fold(0.0, f64::max),
            rel: rms / deviation,
            cos: cosines.first().copied().unwrap_or(f64::INFINITY),
            median_cos: cosines.get(cosines.len() / 2).copied().unwrap_or(f64::INFINITY),
            kl: rows().map(|(g, r)| divergence(r, g)).sum::<f64>() / rows().count() as f64,
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The KL divergence of the distribution with logits `q` from that with logits `p`.
fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let log_softmax = |x: &[f32]| -> Vec<f64> {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = x.iter().map(|&x| libm::exp(f64::from(x - max))).sum();
        x.iter().map(|&x| f64::from(x - max) - libm::log(sum)).collect()
    };
    let (p, q) = (log_softmax(p), log_softmax(q));
    p.iter().zip(&q).map(|(p, q)| libm::exp(*p) * (p - q)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_have_no_distance() {
        let x = [1.0, -2.0, 0.5, 3.0];
        let d = Distance::new(&x, &x, 2);
        assert!(d.max_abs == 0.0 && d.rel == 0.0 && d.kl == 0.0 && (d.cos - 1.0).abs() < 1e-12);
        assert_eq!(d.median_cos, d.cos);
    }

    #[test]
    fn differences_are_seen() {
        let d = Distance::new(&[0.0, 1.0, 2.0, 0.0], &[0.0, 1.0, 0.0, 2.0], 2);
        assert!(d.max_abs == 2.0 && d.rel > 1.0 && d.cos == 0.0);
        // Half the mean of KL((e^-2, 1) / (1 + e^-2) from its mirror image): 2 tanh(1) / 2.
        assert!((d.kl - 0.761_594_155_955_764_9).abs() < 1e-12, "{}", d.kl);
    }

    #[test]
    #[should_panic(expected = "differ in length")]
    fn lengths_are_checked() {
        let _ = Distance::new(&[1.0], &[1.0, 2.0], 1);
    }
}
