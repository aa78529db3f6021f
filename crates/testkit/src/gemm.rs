//! Matrix products for tests of kernels: from the bytes of the file to a poisoned output.

use std::ops::Range;

use cera_quant::Format;
use cera_quant::acts::{ActFormat, ActsRef, quantize_acts};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::pack::{PackedRef, STRIP_ROWS, pack, packed_bytes};

use crate::rng::Rng;
use crate::weights::{self, Kind};

/// What stands in an output before a kernel writes it: a NaN that no kernel makes.
pub const POISON: f32 = f32::from_bits(0x7fde_ad01);

/// Packed weights and quantized activations, with the shape of their product.
#[derive(Debug, Clone)]
pub struct Case {
    /// The weight format.
    pub format: Format,
    /// Weight rows.
    pub m: usize,
    /// Tokens.
    pub n: usize,
    /// Elements per row.
    pub k: usize,
    /// Tokens of a column tile.
    pub tile: usize,
    packed: Vec<u8>,
    acts: Vec<u8>,
}

impl Case {
    /// The product of `m` rows and `n` tokens of `k` elements, which are taken from the start of `rows` (bytes of the
    /// file) and `x` (row-major).
    ///
    /// # Panics
    /// If they are too short or `k` is not a whole number of blocks.
    pub fn new(
        format: Format,
        (m, n, k): (usize, usize, usize),
        tile: usize,
        rows: &[u8],
        x: &[f32],
    ) -> Case {
        let mut packed = vec![0xa5; packed_bytes(format, m, k).expect("size")];
        let rows = &rows[..m * format.row_bytes(k).expect("whole blocks")];
        pack(format, (m, k), rows, &mut packed).expect("shapes");
        let act = ActFormat::of(format);
        let mut acts = vec![0xa5; act.bytes(n, k).expect("size")];
        quantize_acts(act, &x[..n * k], k, tile, &mut acts).expect("shapes");
        Case { format, m, n, k, tile, packed, acts }
    }

    /// The arguments of the whole product.
    pub fn args<'a>(&'a self, out: OutMat<'a>) -> GemmArgs<'a> {
        let act = ActFormat::of(self.format);
        let w = PackedRef::new(self.format, self.m, self.k, &self.packed).expect("shapes");
        let x = ActsRef::new(act, (self.n, self.k), self.tile, &self.acts).expect("shapes");
        let (strips, tiles) = (0..w.strips(), 0..x.tiles());
        GemmArgs { w, x, strips, tiles, out }
    }

    /// Runs a kernel on some strips and column tiles: `n` tokens, `stride` elements apart, poison where it wrote
    /// nothing.
    ///
    /// # Panics
    /// If the ranges are outside of the product or `stride < m`.
    pub fn run_part(
        &self,
        kernel: impl Fn(&GemmArgs<'_>),
        (strips, tiles): (Range<usize>, Range<usize>),
        stride: usize,
    ) -> Vec<f32> {
        let mut out = vec![POISON; self.n * stride];
        // SAFETY: `out` has `n` times `stride` elements, `from_raw` checks that `stride` is at least `m`, and nobody
        // else uses `out` before the last use of the view.
        let view = unsafe { OutMat::from_raw(out.as_mut_ptr(), self.n, self.m, stride) };
        let args = GemmArgs { strips, tiles, ..self.args(view) };
        args.check().expect("arguments");
        kernel(&args);
        out
    }

    /// Runs a kernel on everything: `n` tokens of `m` rows.
    pub fn run(&self, kernel: impl Fn(&GemmArgs<'_>)) -> Vec<f32> {
        let parts = (0..self.m.div_ceil(STRIP_ROWS), 0..self.n.div_ceil(self.tile));
        self.run_part(kernel, parts, self.m)
    }

    /// The first element in which two outputs of [`Case::run`] differ, with its place. All NaN count as one number,
    /// except for poison.
    pub fn difference(&self, out: &[f32], expected: impl Fn(usize, usize) -> f32) -> Option<String> {
        let Case { format, m, n, k, tile, .. } = *self;
        let differs = |got: f32, expected: f32| {
            let both_nan = got.is_nan() && expected.is_nan() && got.to_bits() != POISON.to_bits();
            got.to_bits() != expected.to_bits() && !both_nan
        };
        (0..m * n).find(|&i| differs(out[i], expected(i / m, i % m))).map(|i| {
            let (token, row, got) = (i / m, i % m, out[i]);
            let expected = expected(token, row);
            format!("{format} {m} x {n} x {k}, tile {tile}: ({token}, {row}) is {got:e}, not {expected:e}")
        })
    }
}

/// `n` tokens of `k` activations: bell-shaped ones, with pieces of other sizes, zeros and outliers. All are finite.
pub fn activations(n: usize, k: usize, rng: &mut Rng) -> Vec<f32> {
    let mut x: Vec<f32> = (0..n * k).map(|_| rng.normal()).collect();
    for piece in x.chunks_mut(32) {
        match rng.below(8) {
            0 => piece.fill(0.0),
            1 => piece.iter_mut().for_each(|x| *x *= 1e-33),
            2 => piece[0] = 6e4,
            3 => piece.iter_mut().for_each(|x| *x = 6e4 * x.signum()),
            4 => piece.iter_mut().for_each(|x| *x += 6e4),
            5 => {
                let at = rng.below(piece.len());
                piece[at] *= 1e3;
            }
            _ => {}
        }
    }
    x
}

/// Row lengths to try: one and some blocks; for plain floats odd and even ones.
pub const fn lengths(format: Format) -> &'static [usize] {
    match format.block_len() {
        1 => &[1, 2, 65],
        32 => &[32, 96],
        _ => &[256, 512],
    }
}

/// More rows than the strips that any kernel works on at once, with a partial strip at the end.
const MANY_ROWS: usize = 6 * STRIP_ROWS + 5;

/// Where two kernels of a format disagree in a bit: over shapes around whole strips and tiles and as many rows as tokens
/// and blocks up to 19, with tiles of the given numbers of tokens, and over all kinds of weights. Empty if they agree.
pub fn disagreements(
    format: Format,
    tiles: &[usize],
    kernel: impl Fn(&GemmArgs<'_>),
    reference: impl Fn(&GemmArgs<'_>),
) -> Vec<String> {
    let mut rng = Rng::new(1);
    let mut failures = Vec::new();
    let mut compare = |kind: Kind, case: &Case| {
        let expected = case.run(&reference);
        let difference = case.difference(&case.run(&kernel), |token, row| expected[token * case.m + row]);
        failures.extend(difference.map(|difference| format!("{kind:?}: {difference}")));
    };
    for &k in lengths(format) {
        let rows = weights::rows(format, (MANY_ROWS, k), Kind::Sane, &mut rng);
        for &tile in tiles {
            let tokens = [0, 1, tile - 1, tile, tile + 1, 2 * tile + 1, 33];
            let x = activations(33.max(2 * tile + 1), k, &mut rng);
            for m in [0, 1, 15, 16, 17, 33] {
                for n in tokens {
                    compare(Kind::Sane, &Case::new(format, (m, n, k), tile, &rows, &x));
                }
            }
            compare(Kind::Sane, &Case::new(format, (MANY_ROWS, tile + 1, k), tile, &rows, &x));
        }
    }
    for size in 1..20 {
        let k = size * format.block_len();
        let rows = weights::rows(format, (size, k), Kind::Sane, &mut rng);
        let x = activations(size, k, &mut rng);
        for &tile in tiles {
            compare(Kind::Sane, &Case::new(format, (size, size, k), tile, &rows, &x));
        }
    }
    for kind in Kind::ALL {
        let k = 5 * lengths(format)[1];
        let rows = weights::rows(format, (17, k), kind, &mut rng);
        for &tile in tiles {
            let x = extreme_activations(tile + 2, k, &mut rng);
            compare(kind, &Case::new(format, (17, tile + 2, k), tile, &rows, &x));
        }
    }
    failures
}

/// As [`activations`], with large values in the first token, all of one sign, in the second, of alternating signs, and in
/// the third, if there is one, all of the other sign: they give the largest sums.
///
/// # Panics
/// If there are fewer than two tokens.
pub fn extreme_activations(n: usize, k: usize, rng: &mut Rng) -> Vec<f32> {
    let mut x = activations(n, k, rng);
    x[..k].fill(-6e4);
    x[k..2 * k].iter_mut().enumerate().for_each(|(i, x)| *x = if i % 2 == 0 { 6e4 } else { -6e4 });
    if n > 2 {
        x[2 * k..3 * k].fill(6e4);
    }
    x
}

#[cfg(test)]
mod tests;
