//! Weight matrices as the executor holds them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cera_quant::num::{bf16_to_f32, flush_bf16};
use cera_quant::pack::{self, PackedRef, STRIP_ROWS};
use cera_quant::{Format, QuantError};
use rayon::prelude::*;

use crate::buffer::{ALIGN, AlignedBuf};
use crate::error::Error;
use crate::width::running_at_once;

/// Bytes that outlive the matrices which read them: a mapped file, for example.
pub trait ByteSource: Send + Sync + fmt::Debug {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// Says that some of the bytes are needed soon.
    fn will_need(&self, _range: Range<usize>) {}

    /// Says that some of the bytes are not needed for some time; they can be read all the same.
    fn release(&self, _range: Range<usize>) {}
}

impl ByteSource for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl ByteSource for AlignedBuf {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// What a matrix is, whether or not its bytes are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixShape {
    /// The weight format.
    pub format: Format,
    /// How many matrices of `m` rows it is, one after the other.
    pub stack: usize,
    /// Rows.
    pub m: usize,
    /// Elements per row.
    pub k: usize,
}

/// A weight matrix of `m` rows of `k` elements, or a stack of such matrices: the experts of a layer, for example.
#[derive(Debug, Clone)]
pub struct Matrix {
    format: Format,
    stack: usize,
    m: usize,
    k: usize,
    data: Data,
}

#[derive(Debug, Clone)]
enum Data {
    Packed { arena: Arc<AlignedBuf>, range: Range<usize> },
    Plain { source: Arc<dyn ByteSource>, range: Range<usize> },
}

impl Matrix {
    /// A matrix that stays where it is, row after row as in a file.
    ///
    /// # Errors
    /// [`QuantError`] if the range is not that of `m` rows of `k` elements or lies outside of the source.
    pub fn plain(
        format: Format,
        (m, k): (usize, usize),
        source: Arc<dyn ByteSource>,
        range: Range<usize>,
    ) -> Result<Matrix, QuantError> {
        let row =
            format.row_bytes(k).ok_or(QuantError::PartialBlock { format, k, block: format.block_len() })?;
        let expected = row.checked_mul(m).ok_or(QuantError::TooLarge { what: "matrix", m, k })?;
        if range.len() != expected {
            return Err(QuantError::ShapeMismatch { what: "bytes of a matrix", expected, got: range.len() });
        }
        let have = source.bytes().len();
        if range.end > have {
            return Err(QuantError::ShapeMismatch {
                what: "end of a matrix in its source",
                expected: have,
                got: range.end,
            });
        }
        Ok(Matrix { format, stack: 1, m, k, data: Data::Plain { source, range } })
    }

    /// The rows of a matrix that is not packed as a stack of `stack` matrices.
    ///
    /// # Errors
    /// [`QuantError::ShapeMismatch`] if the rows cannot be shared out evenly, or are packed.
    pub fn stacked(self, stack: usize) -> Result<Matrix, QuantError> {
        let plain = matches!(self.data, Data::Plain { .. });
        if !plain || stack == 0 || !self.m.is_multiple_of(stack) {
            let (expected, got) = (stack, self.m);
            return Err(QuantError::ShapeMismatch { what: "rows of a stack, a multiple of", expected, got });
        }
        Ok(Matrix { stack, m: self.m / stack, ..self })
    }

    /// The same matrix in packed strips, in memory of its own.
    ///
    /// # Errors
    /// As [`pack_all`].
    pub fn packed(&self) -> Result<Matrix, Error> {
        let mut packed = pack_all(&[self.shape()], 1, |_| Ok::<_, Error>(self.clone()), |_| {})?;
        Ok(packed.swap_remove(0))
    }

    /// What the matrix is.
    pub fn shape(&self) -> MatrixShape {
        MatrixShape { format: self.format, stack: self.stack, m: self.m, k: self.k }
    }

    /// The weight format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many matrices it is.
    pub fn stack(&self) -> usize {
        self.stack
    }

    /// Rows of one matrix.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Elements per row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Elements of all matrices.
    pub fn elements(&self) -> usize {
        self.stack * self.m * self.k
    }

    /// Bytes of a row in the file.
    pub(crate) fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.k).unwrap_or(0)
    }

    /// Strips of 16 rows of one matrix.
    pub fn strips(&self) -> usize {
        self.m.div_ceil(STRIP_ROWS)
    }

    /// Bytes of anonymous memory that the matrix holds: none unless it is packed.
    pub fn packed_len(&self) -> usize {
        match &self.data {
            Data::Packed { range, .. } => range.len(),
            Data::Plain { .. } => 0,
        }
    }

    /// Whether the matrix is packed.
    pub fn is_packed(&self) -> bool {
        matches!(self.data, Data::Packed { .. })
    }

    /// The packed strips of one matrix of the stack, if it is packed.
    ///
    /// # Panics
    /// If there is no such matrix.
    pub fn packed_ref(&self, member: usize) -> Option<PackedRef<'_>> {
        match &self.data {
            Data::Packed { arena, range } => {
                let len = range.len() / self.stack;
                let bytes = &arena[range.clone()][member * len..(member + 1) * len];
                PackedRef::new(self.format, self.m, self.k, bytes).ok()
            }
            Data::Plain { .. } => None,
        }
    }

    /// Where the rows of one matrix of the stack stand in their source, if they are not packed.
    fn plain_range(&self, member: usize) -> Option<(&dyn ByteSource, Range<usize>)> {
        let Data::Plain { source, range } = &self.data else { return None };
        let len = range.len() / self.stack;
        Some((&**source, range.start + member * len..range.start + (member + 1) * len))
    }

    /// Says that one matrix of the stack is needed soon.
    pub(crate) fn will_need(&self, member: usize) {
        if let Some((source, range)) = self.plain_range(member) {
            source.will_need(range);
        }
    }

    /// Says that one matrix of the stack is not needed for some time.
    pub(crate) fn release(&self, member: usize) {
        if let Some((source, range)) = self.plain_range(member) {
            source.release(range);
        }
    }

    /// Packs one matrix of the stack, on the calling thread.
    ///
    /// # Errors
    /// [`QuantError`] if `out` is not its strips, or the matrix is packed.
    pub(crate) fn pack_member(&self, member: usize, out: &mut [u8]) -> Result<(), QuantError> {
        let strip = pack::strip_bytes(self.format, self.k)?;
        let (expected, got) = (self.strips() * strip, out.len());
        let rows = self.plain_bytes(member).filter(|_| expected == got);
        let rows = rows.ok_or(QuantError::ShapeMismatch { what: "bytes of strips", expected, got })?;
        let mut strips = out.chunks_exact_mut(strip).enumerate();
        strips.try_for_each(|(s, out)| {
            pack::pack_first_strip(self.format, (self.m, self.k), rows, s..self.strips(), out)
        })
    }

    /// Packs the rows into `out`, or copies their strips if they are packed.
    fn pack_into(&self, out: &mut [u8]) -> Result<(), QuantError> {
        let strip = pack::strip_bytes(self.format, self.k)?;
        let rows = match &self.data {
            Data::Packed { arena, range } => {
                out[..range.len()].copy_from_slice(&arena[range.clone()]);
                return Ok(());
            }
            Data::Plain { source, range } => &source.bytes()[range.clone()],
        };
        if rows.is_empty() {
            return Ok(());
        }
        let (strips, len) = (self.strips(), self.m * self.row_bytes());
        out.par_chunks_exact_mut(strip).take(self.stack * strips).enumerate().try_for_each(|(s, out)| {
            let rows = &rows[s / strips * len..][..len];
            pack::pack_first_strip(self.format, (self.m, self.k), rows, s % strips..strips, out)
        })
    }

    /// The rows of one matrix of the stack as they stand in the file.
    fn plain_bytes(&self, member: usize) -> Option<&[u8]> {
        let (source, range) = self.plain_range(member)?;
        Some(&source.bytes()[range])
    }

    /// Packs the first of some strips of one matrix of the stack into `scratch` and gives it as a matrix of up to 16 rows;
    /// `None` if the matrix is packed.
    ///
    /// # Errors
    /// [`QuantError`] if `scratch` is shorter than a strip or there is no such strip.
    pub(crate) fn pack_first_strip<'a>(
        &self,
        member: usize,
        strips: Range<usize>,
        scratch: &'a mut [u8],
    ) -> Result<Option<PackedRef<'a>>, QuantError> {
        let Some(rows) = self.plain_bytes(member) else { return Ok(None) };
        let expected = pack::strip_bytes(self.format, self.k)?;
        let got = scratch.len();
        let out = scratch.get_mut(..expected).ok_or(QuantError::ShapeMismatch {
            what: "bytes of a strip",
            expected,
            got,
        })?;
        let first = strips.start;
        pack::pack_first_strip(self.format, (self.m, self.k), rows, strips, out)?;
        let rows = STRIP_ROWS.min(self.m - first * STRIP_ROWS);
        PackedRef::new(self.format, rows, self.k, out).map(Some)
    }

    /// Dequantizes one row of the first matrix; `scratch` takes its bytes where the matrix is packed.
    ///
    /// `BF16` magnitudes below 2^-55 are zeros of their sign, as in packed strips, wherever the row is read.
    ///
    /// # Errors
    /// [`QuantError`] if `out` is not `k` elements or `scratch` is shorter than a row of the file.
    pub(crate) fn dequantize_row(
        &self,
        row: usize,
        scratch: &mut [u8],
        out: &mut [f32],
    ) -> Result<(), QuantError> {
        let expected = self.row_bytes();
        match self.packed_ref(0) {
            Some(packed) => {
                let got = scratch.len();
                let bytes = scratch.get_mut(..expected).ok_or(QuantError::ShapeMismatch {
                    what: "bytes of a row",
                    expected,
                    got,
                })?;
                packed.extract_row(row, bytes)?;
                cera_quant::blocks::dequantize_row(self.format, bytes, out)
            }
            None => {
                let rows = self.plain_bytes(0).unwrap_or_default();
                cera_quant::blocks::dequantize_row(self.format, &rows[row * expected..][..expected], out)?;
                if self.format == Format::BF16 {
                    out.iter_mut().for_each(|x| *x = bf16_to_f32(flush_bf16((x.to_bits() >> 16) as u16)));
                }
                Ok(())
            }
        }
    }
}

/// Packs matrices on `width` threads, or one for each processor if those are fewer, into one arena, one matrix after the
/// other. `matrix` is asked for each by its index when its turn comes, and it is dropped before `done` hears the index: of
/// memory of their own, the matrices to pack take that of one at a time.
///
/// # Errors
/// [`Error::Quant`] if the packed size overflows or a matrix has not its shape, [`Error::OutOfMemory`], and those of
/// `matrix`.
pub fn pack_all<E: From<Error>>(
    shapes: &[MatrixShape],
    width: usize,
    mut matrix: impl FnMut(usize) -> Result<Matrix, E>,
    mut done: impl FnMut(usize),
) -> Result<Vec<Matrix>, E> {
    let mut ranges = Vec::with_capacity(shapes.len());
    let mut end = 0usize;
    for &MatrixShape { format, stack, m, k } in shapes {
        let len = pack::packed_bytes(format, m, k).map_err(Error::from)?;
        let range = len.checked_mul(stack).and_then(|len| Some(end..end.checked_add(len)?));
        let range = range.ok_or(Error::from(QuantError::TooLarge { what: "packed weights", m, k }))?;
        end = range.end.next_multiple_of(ALIGN);
        ranges.push(range);
    }
    let mut arena = AlignedBuf::zeroed(end)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(running_at_once(width)).build();
    for (i, (shape, range)) in shapes.iter().zip(&ranges).enumerate() {
        let matrix = matrix(i)?;
        check_shape(shape, &matrix).map_err(Error::from)?;
        let out = &mut arena[range.clone()];
        let done_packing = match &pool {
            Ok(pool) => pool.install(|| matrix.pack_into(out)),
            // Without threads the calling thread packs.
            Err(_) => matrix.pack_into(out),
        };
        done_packing.map_err(Error::from)?;
        drop(matrix);
        done(i);
    }
    let arena = Arc::new(arena);
    let packed = shapes.iter().zip(ranges).map(|(&MatrixShape { format, stack, m, k }, range)| Matrix {
        format,
        stack,
        m,
        k,
        data: Data::Packed { arena: arena.clone(), range },
    });
    Ok(packed.collect())
}

/// That a matrix is what was announced.
fn check_shape(shape: &MatrixShape, matrix: &Matrix) -> Result<(), QuantError> {
    let MatrixShape { format, stack, m, k } = matrix.shape();
    if format != shape.format {
        return Err(QuantError::FormatMismatch {
            what: "matrix to pack",
            expected: shape.format.label(),
            got: format.label(),
        });
    }
    for (what, expected, got) in [
        ("matrices of a stack to pack", shape.stack, stack),
        ("rows of a matrix to pack", shape.m, m),
        ("columns of a matrix to pack", shape.k, k),
    ] {
        if got != expected {
            return Err(QuantError::ShapeMismatch { what, expected, got });
        }
    }
    Ok(())
}
