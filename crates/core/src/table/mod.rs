//! Kernel tables: which kernel serves which format and operation on a tier.

use std::mem::MaybeUninit;

use cera_quant::acts::{ActFormat, ActsRef};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::kernels::{Dots, MatrixFn, Ops, QuantizeFn, TierKernels};
use cera_quant::pack::PackedRef;
use cera_quant::scalar;
use cera_quant::{Format, QuantError};

use crate::backends;
use crate::pool::DefaultMode;
use crate::tier::{CpuTier, TierChoice};

mod call;
mod id;
mod ops;

pub(crate) use call::{Kernels, KvKernels};
pub(crate) use id::{F32_OPS, SLOTS};
pub use id::{F32Op, KernelId, KernelOp};

/// A kernel and the tier whose code it is.
#[derive(Debug, Clone, Copy)]
struct Entry<F> {
    tier: CpuTier,
    run: F,
}

/// The kernels of a tier. Tables exist only for tiers that this machine runs.
#[derive(Debug)]
pub struct KernelTable {
    tier: CpuTier,
    gemm: [Entry<MatrixFn>; Format::COUNT],
    gemv: [Entry<MatrixFn>; Format::COUNT],
    /// Weight rows and tokens of the register tiles of GEMM and GEMV.
    shapes: [[(usize, usize); 2]; Format::COUNT],
    quantize: [Entry<QuantizeFn>; ActFormat::ALL.len()],
    ops: Ops,
    /// The tier whose f32 operations these are.
    ops_tier: CpuTier,
    /// Tokens of a column tile in GEMM.
    tile: usize,
    dots: Option<Dots>,
}

impl KernelTable {
    /// The table of a tier that this machine was found to run: its own kernels, and those of the next lower tier that has
    /// one where it has none.
    pub fn new(choice: &TierChoice) -> KernelTable {
        let lower = std::iter::successors(Some(choice.tier()), |tier| tier.lower());
        let mut chain: Vec<CpuTier> = lower.filter(|tier| choice.usable(*tier)).collect();
        chain.reverse();
        let mut table = KernelTable::scalar();
        for tier in chain {
            if let Some(own) = backends::kernels(tier) {
                table.overlay(tier, &own);
            }
        }
        table
    }

    /// The table of the scalar tier, which every machine runs.
    pub fn scalar() -> KernelTable {
        let own = scalar::KERNELS;
        let missing = || -> ! { panic!("the scalar tier has every kernel") };
        fn entry<F>(run: F) -> Entry<F> {
            Entry { tier: CpuTier::Scalar, run }
        }
        KernelTable {
            tier: CpuTier::Scalar,
            gemm: Format::ALL.map(|format| entry((own.gemm)(format).unwrap_or_else(|| missing()))),
            gemv: Format::ALL.map(|format| entry((own.gemv)(format).unwrap_or_else(|| missing()))),
            shapes: Format::ALL.map(own.shapes),
            quantize: ActFormat::ALL.map(|format| entry((own.quantize)(format).unwrap_or_else(|| missing()))),
            ops: own.ops,
            ops_tier: CpuTier::Scalar,
            tile: own.tile,
            dots: own.dots,
        }
    }

    /// Takes the kernels that a wider tier has of its own.
    fn overlay(&mut self, tier: CpuTier, own: &TierKernels) {
        fn set<F>(entry: &mut Entry<F>, tier: CpuTier, own: Option<F>) {
            if let Some(run) = own {
                *entry = Entry { tier, run };
            }
        }
        for format in Format::ALL {
            set(&mut self.gemm[format.index()], tier, (own.gemm)(format));
            set(&mut self.gemv[format.index()], tier, (own.gemv)(format));
            for (i, kernel) in [(own.gemm)(format), (own.gemv)(format)].into_iter().enumerate() {
                if kernel.is_some() {
                    self.shapes[format.index()][i] = (own.shapes)(format)[i];
                }
            }
        }
        for format in ActFormat::ALL {
            set(&mut self.quantize[format.index()], tier, (own.quantize)(format));
        }
        (self.tier, self.ops, self.ops_tier, self.tile) = (tier, own.ops, tier, own.tile);
        self.dots = own.dots.or(self.dots);
    }

    /// The tier.
    pub fn tier(&self) -> CpuTier {
        self.tier
    }

    /// Every kernel of the table, GEMM first, then GEMV, quantizers and f32 operations.
    pub fn kernels(&self) -> impl Iterator<Item = KernelId> + '_ {
        let matrices = |gemv: bool| Format::ALL.into_iter().map(move |format| self.matrix_id(format, gemv));
        let quantizers = ActFormat::ALL.into_iter().map(|format| KernelId {
            tier: self.quantize[format.index()].tier,
            op: KernelOp::Quantize(format),
            tile: (1, 1),
        });
        let ops = F32_OPS.into_iter().map(|op| KernelId {
            tier: self.ops_tier,
            op: KernelOp::F32(op),
            tile: (1, 1),
        });
        matrices(false).chain(matrices(true)).chain(quantizers).chain(ops)
    }

    /// The kernel that multiplies a matrix of this format by one token (`gemv`) or by several.
    pub fn matrix_id(&self, format: Format, gemv: bool) -> KernelId {
        let (table, op) = match gemv {
            false => (&self.gemm, KernelOp::Gemm(format)),
            true => (&self.gemv, KernelOp::Gemv(format)),
        };
        let tile = self.shapes[format.index()][usize::from(gemv)];
        KernelId { tier: table[format.index()].tier, op, tile }
    }

    /// Tokens of a column tile of activations for `n` tokens.
    pub fn column_tile(&self, n: usize) -> usize {
        self.tile.min(n.max(1))
    }

    /// Brings activations to an activation format: `x` is `n` rows of `k` elements, `out` their records in column tiles
    /// of [`KernelTable::column_tile`] tokens.
    ///
    /// # Errors
    /// [`QuantError::ShapeMismatch`] if a length does not fit.
    pub fn quantize(&self, format: ActFormat, x: &[f32], k: usize, out: &mut [u8]) -> Result<(), QuantError> {
        let n = x.len() / k.max(1);
        if x.len() != n * k {
            return Err(QuantError::ShapeMismatch {
                what: "elements of activations",
                expected: n * k,
                got: x.len(),
            });
        }
        let (expected, got) = (format.bytes(n, k)?, out.len());
        if got != expected {
            return Err(QuantError::ShapeMismatch { what: "bytes of activations", expected, got });
        }
        if n == 0 || k == 0 {
            return Ok(());
        }
        let (tile, row) = (self.column_tile(n), expected / n);
        let _mode = DefaultMode::enter();
        for (x, out) in x.chunks(tile * k).zip(out.chunks_mut(tile * row)) {
            // SAFETY: a table exists only for a tier that the machine runs; the lengths were checked above.
            unsafe { (self.quantize[format.index()].run)(x, k, out) }
        }
        Ok(())
    }

    /// `out = x . w^T`: `w: [m, k]`, `x: [n, k]`, `out: [n, m]`, row-major.
    ///
    /// # Errors
    /// [`QuantError`] if formats or lengths do not fit; nothing is written then.
    pub fn matmul<'o>(
        &self,
        w: PackedRef<'_>,
        x: ActsRef<'_>,
        out: &'o mut [MaybeUninit<f32>],
    ) -> Result<&'o mut [f32], QuantError> {
        let (m, n) = (w.m(), x.n());
        let expected = m.checked_mul(n).ok_or(QuantError::TooLarge { what: "output", m: n, k: m })?;
        if out.len() != expected {
            return Err(QuantError::ShapeMismatch {
                what: "elements of the output",
                expected,
                got: out.len(),
            });
        }
        let ptr = out.as_mut_ptr().cast::<f32>();
        // SAFETY: `out` holds `n * m` elements and is borrowed exclusively for longer than the view.
        let view = unsafe { OutMat::from_raw(ptr, n, m, m) };
        let args = GemmArgs { w, x, strips: 0..w.strips(), tiles: 0..x.tiles(), out: view };
        args.check()?;
        let _mode = DefaultMode::enter();
        // SAFETY: a table exists only for a tier that the machine runs; `check` accepted the arguments.
        unsafe { (self.matrix(w.format(), n).run)(&args) };
        // SAFETY: the kernel wrote every row of every strip for every token of every tile: all elements.
        Ok(unsafe { std::slice::from_raw_parts_mut(ptr, expected) })
    }

    /// Runs `rounds` rounds of the fastest integer dot product and nothing else, and gives the number of products that
    /// were added up; `None` if no tier of the table has one.
    pub(crate) fn run_dots(&self, rounds: usize) -> Option<usize> {
        let dots = self.dots?;
        // SAFETY: a table exists only for a tier that the machine runs.
        unsafe { (dots.run)(rounds) };
        Some(rounds * dots.macs)
    }

    /// The matrix kernel for `n` tokens.
    fn matrix(&self, format: Format, n: usize) -> &Entry<MatrixFn> {
        let table = if n == 1 { &self.gemv } else { &self.gemm };
        &table[format.index()]
    }
}

#[cfg(all(test, not(loom)))]
impl KernelTable {
    /// The table of the scalar tier, with `run` as the kernel of every matrix.
    pub(crate) fn with_matrix_kernel(run: MatrixFn) -> KernelTable {
        let mut table = KernelTable::scalar();
        table.gemm.iter_mut().chain(&mut table.gemv).for_each(|entry| entry.run = run);
        table
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
