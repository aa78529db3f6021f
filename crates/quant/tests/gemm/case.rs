//! One matrix product from the bytes of the file to a poisoned output.

use std::ops::Range;

use cera_quant::Format;
use cera_quant::acts::{ActFormat, ActsRef, quantize_acts};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::pack::{PackedRef, pack, packed_bytes};
use cera_quant::scalar::gemm;
use cera_testkit::rng::Rng;

/// What no kernel writes: a NaN of its own.
pub(crate) const POISON: f32 = f32::from_bits(0x7fde_ad01);

pub(crate) struct Case {
    pub(crate) format: Format,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) tile: usize,
    packed: Vec<u8>,
    acts: Vec<u8>,
}

impl Case {
    /// `m` rows and `n` tokens of `k` elements, from the start of `rows` and `x`.
    pub(crate) fn new(
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

    pub(crate) fn args<'a>(&'a self, out: OutMat<'a>) -> GemmArgs<'a> {
        let act = ActFormat::of(self.format);
        let w = PackedRef::new(self.format, self.m, self.k, &self.packed).expect("shapes");
        let x = ActsRef::new(act, (self.n, self.k), self.tile, &self.acts).expect("shapes");
        let (strips, tiles) = (0..w.strips(), 0..x.tiles());
        GemmArgs { w, x, strips, tiles, out }
    }

    /// Runs the kernel on a part into a poisoned output of `n` tokens, `stride` apart.
    pub(crate) fn run_part(&self, strips: Range<usize>, tiles: Range<usize>, stride: usize) -> Vec<f32> {
        let mut out = vec![POISON; self.n * stride];
        // SAFETY: `out` has `n` times `stride` elements, `stride` is at least `m`, and nobody else uses it meanwhile.
        let view = unsafe { OutMat::from_raw(out.as_mut_ptr(), self.n, self.m, stride) };
        let args = GemmArgs { strips, tiles, ..self.args(view) };
        args.check().expect("arguments");
        gemm::by_format(self.format)(&args);
        out
    }

    /// Runs the kernel on everything: `n` tokens of `m` rows.
    pub(crate) fn run(&self) -> Vec<f32> {
        self.run_part(0..self.m.div_ceil(16), 0..self.n.div_ceil(self.tile), self.m)
    }
}

/// `n` tokens of `k` activations: bell-shaped ones, with rows and pieces of other sizes, zeros and outliers. All are
/// finite.
pub(crate) fn activations(n: usize, k: usize, rng: &mut Rng) -> Vec<f32> {
    let mut x: Vec<f32> = (0..n * k).map(|_| rng.normal()).collect();
    for piece in x.chunks_mut(32) {
        match rng.below(8) {
            0 => piece.fill(0.0),
            1 => piece.iter_mut().for_each(|x| *x *= 1e-33),
            2 => piece[0] = 6e4,
            3 => piece.iter_mut().for_each(|x| *x = 6e4 * x.signum()),
            4 => piece.iter_mut().for_each(|x| *x += 6e4),
            5 => piece[rng.below(piece.len())] *= 1e3,
            _ => {}
        }
    }
    x
}
