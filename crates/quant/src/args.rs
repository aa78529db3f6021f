//! The argument structs of matrix kernels.

use std::marker::PhantomData;
use std::ops::Range;

use crate::QuantError;
use crate::acts::{ActFormat, ActsRef};
use crate::pack::PackedRef;

/// A writable f32 matrix, row-major by token: element `(token, row)` is at `token * stride + row`.
///
/// Several workers may hold views of one matrix as long as they write disjoint elements; that is what
/// [`OutMat::from_raw`] asks for.
#[derive(Debug, Clone, Copy)]
pub struct OutMat<'a> {
    ptr: *mut f32,
    tokens: usize,
    rows: usize,
    stride: usize,
    _out: PhantomData<&'a mut [f32]>,
}

impl OutMat<'_> {
    /// A view of `tokens` by `rows` elements, `stride` elements from one token to the next.
    ///
    /// # Safety
    /// - `ptr` is valid for writes of every element `(token, row)` for the lifetime of the view;
    /// - nobody else reads or writes an element while the holder of this view may write it.
    ///
    /// # Panics
    /// If `stride < rows`.
    pub unsafe fn from_raw(ptr: *mut f32, tokens: usize, rows: usize, stride: usize) -> Self {
        assert!(stride >= rows, "stride {stride} is less than the {rows} rows of a token");
        OutMat { ptr, tokens, rows, stride, _out: PhantomData }
    }

    /// Tokens.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Rows per token.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements from one token to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The address of element `(token, row)`.
    ///
    /// # Panics
    /// If the element is outside of the matrix.
    #[inline(always)]
    pub fn at(&self, token: usize, row: usize) -> *mut f32 {
        assert!(token < self.tokens && row < self.rows, "({token}, {row}) is outside of the output");
        self.ptr.wrapping_add(token * self.stride + row)
    }

    /// Writes `values` to rows `row..` of one token.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline(always)]
    pub fn store(&self, token: usize, row: usize, values: &[f32]) {
        assert!(
            token < self.tokens && row <= self.rows && values.len() <= self.rows - row,
            "store outside of the output"
        );
        let to = self.ptr.wrapping_add(token * self.stride + row);
        // SAFETY: the assertion keeps the range inside of the matrix, which `from_raw` was promised to be writable and
        // not shared; `values` is a shared borrow and so cannot be the same memory.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) }
    }
}

/// One piece of work of a matrix kernel: `out[token, row] = x[token, :] . w[row, :]` for the rows of `strips` and the
/// tokens of `tiles`.
///
/// Shapes: `w: [m, k]`, `x: [n, k]`, `out: [n, m]`, row-major. Rows past `m` in the last strip are not written.
#[derive(Debug, Clone)]
pub struct GemmArgs<'a> {
    /// The weights.
    pub w: PackedRef<'a>,
    /// The activations, in the activation format that the kernel states.
    pub x: ActsRef<'a>,
    /// Strips of 16 weight rows to compute.
    pub strips: Range<usize>,
    /// Column tiles of `x` to compute.
    pub tiles: Range<usize>,
    /// Where the results go: `n` tokens by `m` rows.
    pub out: OutMat<'a>,
}

impl GemmArgs<'_> {
    /// Whether a kernel can run on these arguments. Callers check; kernels panic where they rely on it.
    ///
    /// An empty range is fine, and so is an output with more tokens or rows than are computed.
    ///
    /// # Errors
    /// [`QuantError::FormatMismatch`] if the kernels of the weights read other activations,
    /// [`QuantError::ShapeMismatch`] if the rows have different lengths or the output is too small,
    /// [`QuantError::OutOfRange`] if a range ends after the last strip or tile.
    pub fn check(&self) -> Result<(), QuantError> {
        let (wanted, found) = (ActFormat::of(self.w.format()), self.x.format());
        if wanted != found {
            let (expected, got) = (wanted.label(), found.label());
            return Err(QuantError::FormatMismatch { what: "activations of a matrix kernel", expected, got });
        }
        if self.x.k() != self.w.k() {
            let (expected, got) = (self.w.k(), self.x.k());
            return Err(QuantError::ShapeMismatch { what: "elements of an activation row", expected, got });
        }
        for (what, range, len) in
            [("strips", &self.strips, self.w.strips()), ("column tiles", &self.tiles, self.x.tiles())]
        {
            if range.end > len {
                return Err(QuantError::OutOfRange { what, end: range.end, len });
            }
        }
        for (what, expected, got) in [
            ("tokens of the output, at least", self.x.n(), self.out.tokens()),
            ("rows of the output, at least", self.w.m(), self.out.rows()),
        ] {
            if got < expected {
                return Err(QuantError::ShapeMismatch { what, expected, got });
            }
        }
        Ok(())
    }
}
