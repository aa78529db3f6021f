//! The least number of instructions that a register tile of 8 rows and 4 tokens can do with, derived from what it has to
//! do; `docs/perf/aarch64.md` gives the reasons for each term. Weights are unpacked to bytes beforehand.

/// A term of the sum and its instructions.
pub(super) type Term = (&'static str, f64);

/// How a format scales its integer sums.
#[derive(Clone, Copy)]
enum Scales {
    /// A float for 32 elements, and perhaps a float minimum.
    Float { minima: bool },
    /// Integers for groups of 256 elements and a float for all, and perhaps minima of the same kind.
    Integer { groups: f64, minima: bool },
}

fn scales(format: &str) -> Option<Scales> {
    Some(match format {
        "Q4_0" | "Q5_0" | "Q8_0" | "IQ4_NL" | "MXFP4" => Scales::Float { minima: false },
        "Q4_1" | "Q5_1" => Scales::Float { minima: true },
        "Q4_K" | "Q5_K" => Scales::Integer { groups: 8.0, minima: true },
        "IQ4_XS" => Scales::Integer { groups: 8.0, minima: false },
        "Q3_K" | "Q6_K" => Scales::Integer { groups: 16.0, minima: false },
        "Q2_K" => Scales::Integer { groups: 16.0, minima: true },
        _ => return None,
    })
}

/// What an instruction of products means for the tile.
struct Products {
    /// For 32 elements.
    number: f64,
    /// Vectors that hold a number for each row, as the sums want it.
    row_vectors: f64,
    /// Loads of a number for each token, as the sums want it.
    token_loads: f64,
    /// Products of the minima of 8 groups with the high or the low bytes of the sums of codes.
    minima: f64,
}

fn products_of(tier: &str) -> Option<Products> {
    match tier {
        // A row of four is a vector, a token a lane.
        "neon-dotprod" => Some(Products { number: 64.0, row_vectors: 2.0, token_loads: 4.0, minima: 16.0 }),
        // Two rows by two tokens are a vector.
        "neon-i8mm" => Some(Products { number: 32.0, row_vectors: 4.0, token_loads: 2.0, minima: 8.0 }),
        _ => None,
    }
}

/// Products of the tier's instruction for 32 elements of 8 rows and 4 tokens.
pub(super) fn products(tier: &str, format: &str) -> Option<f64> {
    if ["F16", "BF16", "F32"].contains(&format) {
        return Some(256.0);
    }
    match tier {
        "neon" => Some(128.0),
        _ => products_of(tier).map(|products| products.number),
    }
}

/// Whether the tiles of a tier and a format are held against their minimum.
pub(super) fn is_checked(tier: &str, format: &str) -> bool {
    ["neon-dotprod", "neon-i8mm"].contains(&tier) && ["Q4_0", "Q4_K", "Q6_K", "Q8_0"].contains(&format)
}

/// Vectors of sums of a tile.
const SUMS: f64 = 8.0;
/// Two pointers, a counter and a branch.
const LOOP: f64 = 4.0;

/// The instructions for 32 elements of 8 rows and 4 tokens, by what they are for, where a minimum is derived.
pub(super) fn terms(tier: &str, format: &str) -> Option<Vec<Term>> {
    let (tile, scales) = (products_of(tier)?, scales(format)?);
    let of_bytes = [("products", tile.number), ("loads of weights", 8.0), ("loads of tokens", 4.0)];
    let mut terms = of_bytes.to_vec();
    match scales {
        Scales::Float { minima } => {
            let kinds = if minima { 2.0 } else { 1.0 };
            terms.extend([
                ("zeros", SUMS),
                ("conversions", SUMS),
                ("products of scales", SUMS),
                ("additions", kinds * SUMS),
                ("loads of scales", kinds * (tile.row_vectors / 2.0 + tile.token_loads)),
                ("loop", LOOP),
            ]);
        }
        Scales::Integer { groups, minima } => {
            let blocks = 8.0;
            let kinds = if minima { 2.0 } else { 1.0 };
            terms.extend([
                ("zeros", SUMS * groups / blocks),
                ("scalings by integers", SUMS * groups / blocks),
                ("loads of integer scales", tile.row_vectors / 2.0 * groups / blocks),
                ("conversions, products of scales, additions", 3.0 * kinds * SUMS / blocks),
                ("loads of scales", (kinds * tile.row_vectors / 2.0 + tile.token_loads) / blocks),
                ("loop", LOOP / blocks),
            ]);
            if minima {
                let eights = groups / 8.0;
                terms.extend([
                    ("products of minima", 2.0 * tile.minima * eights / blocks),
                    ("zeros and shifts of minima", 2.0 * SUMS / blocks),
                    ("loads of minima and sums", (2.0 + 4.0) * eights / blocks),
                ]);
            }
        }
    }
    Some(terms)
}

/// The sum of [`terms`].
pub(super) fn of(tier: &str, format: &str) -> Option<f64> {
    Some(terms(tier, format)?.iter().map(|(_, instructions)| instructions).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_are_those_of_the_document() {
        let rounded = |tier: &str, format: &str| of(tier, format).map(|sum| (sum * 10.0).round() / 10.0);
        for (format, dotprod, i8mm) in
            [("Q4_0", 117.0, 84.0), ("Q8_0", 117.0, 84.0), ("Q4_K", 107.0, 74.0), ("Q6_K", 114.1, 84.0)]
        {
            assert_eq!(rounded("neon-dotprod", format), Some(dotprod), "{format}");
            assert_eq!(rounded("neon-i8mm", format), Some(i8mm), "{format}");
            assert!(is_checked("neon-dotprod", format) && !is_checked("neon", format));
        }
        assert_eq!(of("neon", "Q4_0"), None);
        assert_eq!(of("neon-dotprod", "F32"), None);
    }
}
