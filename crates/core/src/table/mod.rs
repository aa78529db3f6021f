//! Kernel tables: which kernel serves which format and operation on a tier.

use std::mem::MaybeUninit;

use cera_quant::acts::{ActFormat, ActsRef};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::kv::AppendArgs;
use cera_quant::ops::{AddArgs, AttentionArgs, GatedArgs, RmsNormArgs, RopeArgs};
use cera_quant::pack::PackedRef;
use cera_quant::{Format, QuantError};

use crate::tier::{CpuTier, TierChoice};

mod call;
mod id;
mod scalar;

pub(crate) use call::{Kernels, KvKernels};
pub(crate) use id::{F32_OPS, SLOTS};
pub use id::{F32Op, KernelId, KernelOp};

/// A matrix kernel.
///
/// # Safety
/// - The machine has the features of the kernel's tier;
/// - the arguments satisfy [`GemmArgs::check`].
type MatrixFn = unsafe fn(&GemmArgs<'_>);

/// A quantizer of one column tile: rows of `k` elements to the records of `cera_quant::acts`.
///
/// # Safety
/// - The machine has the features of the kernel's tier;
/// - the lengths fit together.
type QuantizeFn = unsafe fn(&[f32], usize, &mut [u8]);

/// A kernel and the tier whose code it is.
#[derive(Debug, Clone, Copy)]
struct Entry<F> {
    tier: CpuTier,
    run: F,
}

/// The f32 operations of a tier.
#[derive(Debug, Clone, Copy)]
struct Ops {
    rms_norm: Entry<for<'a> unsafe fn(&mut RmsNormArgs<'a>)>,
    add: Entry<for<'a> unsafe fn(&mut AddArgs<'a>)>,
    gated: Entry<for<'a> unsafe fn(&mut GatedArgs<'a>)>,
    rope: Entry<for<'a> unsafe fn(&mut RopeArgs<'a>)>,
    attention_f32: Entry<for<'a> unsafe fn(&mut AttentionArgs<'a, f32>)>,
    attention_f16: Entry<for<'a> unsafe fn(&mut AttentionArgs<'a, u16>)>,
    append_f32: Entry<for<'a> unsafe fn(&mut AppendArgs<'a, f32>)>,
    append_f16: Entry<for<'a> unsafe fn(&mut AppendArgs<'a, u16>)>,
}

/// The kernels of a tier. Tables exist only for tiers that this machine runs.
#[derive(Debug)]
pub struct KernelTable {
    tier: CpuTier,
    gemm: [Entry<MatrixFn>; Format::COUNT],
    gemv: [Entry<MatrixFn>; Format::COUNT],
    quantize: [Entry<QuantizeFn>; ActFormat::ALL.len()],
    ops: Ops,
    /// Tokens of a column tile in GEMM.
    tile: usize,
}

impl KernelTable {
    /// The table of a tier that this machine was found to run.
    pub fn new(choice: &TierChoice) -> KernelTable {
        match choice.tier() {
            // Tiers without kernels in this version are never chosen.
            CpuTier::Scalar
            | CpuTier::Avx2
            | CpuTier::Avx512Vnni
            | CpuTier::Avx512Bf16
            | CpuTier::Neon
            | CpuTier::NeonDotprod
            | CpuTier::NeonI8mm => scalar::table(),
        }
    }

    /// The table of the scalar tier, which every machine runs.
    pub fn scalar() -> KernelTable {
        scalar::table()
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
            tier: self.ops.tier(op),
            op: KernelOp::F32(op),
            tile: (1, 1),
        });
        matrices(false).chain(matrices(true)).chain(quantizers).chain(ops)
    }

    /// The kernel that multiplies a matrix of this format by one token (`gemv`) or by several.
    pub fn matrix_id(&self, format: Format, gemv: bool) -> KernelId {
        let (table, op, tokens) = match gemv {
            false => (&self.gemm, KernelOp::Gemm(format), self.tile),
            true => (&self.gemv, KernelOp::Gemv(format), 1),
        };
        KernelId { tier: table[format.index()].tier, op, tile: (cera_quant::pack::STRIP_ROWS, tokens) }
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
        // SAFETY: a table exists only for a tier that the machine runs; `check` accepted the arguments.
        unsafe { (self.matrix(w.format(), n).run)(&args) };
        // SAFETY: the kernel wrote every row of every strip for every token of every tile: all elements.
        Ok(unsafe { std::slice::from_raw_parts_mut(ptr, expected) })
    }

    /// The matrix kernel for `n` tokens.
    fn matrix(&self, format: Format, n: usize) -> &Entry<MatrixFn> {
        let table = if n == 1 { &self.gemv } else { &self.gemm };
        &table[format.index()]
    }
}

impl Ops {
    fn tier(&self, op: F32Op) -> CpuTier {
        match op {
            F32Op::RmsNorm => self.rms_norm.tier,
            F32Op::Add => self.add.tier,
            F32Op::Gated => self.gated.tier,
            F32Op::Rope => self.rope.tier,
            F32Op::AttentionF32 => self.attention_f32.tier,
            F32Op::AttentionF16 => self.attention_f16.tier,
            F32Op::AppendF32 => self.append_f32.tier,
            F32Op::AppendF16 => self.append_f16.tier,
        }
    }
}
