//! The key and value cache: element types, the layout of a page, and access to the pages of a sequence.
//!
//! A page holds [`PAGE_KEYS`] consecutive positions of one layer for all of its KV heads. In elements of f32 or f16:
//!
//! ```text
//! page = [head][keys, values]
//! keys   = [position / 16][k_dim][16]          a lane is a position
//! values = [position][v_dim rounded up to 16]  the padding is zero
//! ```
//!
//! Pages of type q8_0 are described there: [`Q8Unit`].

mod pages;
mod q8_0;

pub use pages::KvPages;
pub use q8_0::{BLOCK as Q8_BLOCK, Q8Keys, Q8Page, Q8Unit, Q8Values, append_q8_0};

use crate::num::{LANES, Simd};

/// Positions of a page.
pub const PAGE_KEYS: usize = 64;

/// The element type of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision, rounded to nearest even.
    F16,
    /// int8 with one f16 scale per 32 elements, as the weight format `Q8_0`.
    Q8_0,
}

impl KvType {
    /// The name, as on the command line.
    pub const fn label(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Bytes of a page.
    pub fn page_bytes(self, shape: KvShape) -> usize {
        shape.heads
            * match self {
                KvType::F32 => f32::head_len(shape) * size_of::<f32>(),
                KvType::F16 => u16::head_len(shape) * size_of::<u16>(),
                KvType::Q8_0 => Q8Unit::head_len(shape) * size_of::<Q8Unit>(),
            }
    }

    /// Whether heads of this shape can be held: with blocks, `k_dim` and `v_dim` must be whole ones.
    pub const fn fits(self, shape: KvShape) -> bool {
        !matches!(self, KvType::Q8_0)
            || shape.k_dim.is_multiple_of(Q8_BLOCK) && shape.v_dim.is_multiple_of(Q8_BLOCK)
    }

    /// Bytes per element, without scales.
    pub const fn bytes(self) -> usize {
        match self {
            KvType::F32 => 4,
            KvType::F16 => 2,
            KvType::Q8_0 => 1,
        }
    }
}

/// The heads of one layer's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvShape {
    /// KV heads.
    pub heads: usize,
    /// Elements of a key.
    pub k_dim: usize,
    /// Elements of a value.
    pub v_dim: usize,
}

impl KvShape {
    /// Elements from one value to the next.
    pub const fn v_stride(&self) -> usize {
        self.v_dim.next_multiple_of(LANES)
    }

    /// Elements of the keys of one head in a page.
    pub const fn keys_len(&self) -> usize {
        PAGE_KEYS * self.k_dim
    }

    /// Elements of one head in a page.
    pub const fn head_len(&self) -> usize {
        self.keys_len() + PAGE_KEYS * self.v_stride()
    }

    /// Elements of a page.
    pub const fn page_len(&self) -> usize {
        self.heads * self.head_len()
    }
}

/// What the pages of a cache consist of.
pub trait KvUnit: Copy + Send + Sync + 'static {
    /// The type of the cache.
    const TYPE: KvType;

    /// Units of one head in a page.
    fn head_len(shape: KvShape) -> usize;
}

impl KvUnit for f32 {
    const TYPE: KvType = KvType::F32;

    fn head_len(shape: KvShape) -> usize {
        shape.head_len()
    }
}

impl KvUnit for u16 {
    const TYPE: KvType = KvType::F16;

    fn head_len(shape: KvShape) -> usize {
        shape.head_len()
    }
}

/// An element type of the cache.
pub trait KvElem: KvUnit {
    /// Whether the type is f32.
    const IS_F32: bool;

    /// Sixteen elements as f32, exactly.
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::F;
    /// Sixteen f32 rounded to this type.
    fn round<S: Simd>(s: S, v: S::F) -> [Self; LANES];
}

impl KvElem for f32 {
    const IS_F32: bool = true;

    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[f32; LANES]) -> S::F {
        s.load(x)
    }

    #[inline(always)]
    fn round<S: Simd>(s: S, v: S::F) -> [f32; LANES] {
        s.to_array(v)
    }
}

/// The bits of an f16.
impl KvElem for u16 {
    const IS_F32: bool = false;

    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[u16; LANES]) -> S::F {
        s.load_f16(x)
    }

    #[inline(always)]
    fn round<S: Simd>(s: S, v: S::F) -> [u16; LANES] {
        let mut out = [0; LANES];
        s.store_f16(v, &mut out);
        out
    }
}

/// Arguments of [`append`].
#[derive(Debug)]
pub struct AppendArgs<'a, T> {
    /// The pages of the sequence in one layer.
    pub pages: KvPages<'a, T>,
    /// The position of the token.
    pub position: usize,
    /// The keys of all KV heads of the token: `[heads, k_dim]`.
    pub k: &'a [f32],
    /// The values of all KV heads of the token: `[heads, v_dim]`.
    pub v: &'a [f32],
}

/// Writes the keys and values of one token into the pages.
///
/// # Safety
/// Nobody else uses the position in these pages at the same time: [`KvPages::store_key`].
///
/// # Panics
/// If the position is past the pages or the lengths do not fit their shape.
#[inline(always)]
pub unsafe fn append<S: Simd, T: KvElem>(s: S, args: &mut AppendArgs<'_, T>) {
    let shape = args.pages.shape();
    assert_eq!(args.k.len(), shape.heads * shape.k_dim, "append: elements of k");
    assert_eq!(args.v.len(), shape.heads * shape.v_dim, "append: elements of v");
    for head in 0..shape.heads {
        let k = &args.k[head * shape.k_dim..][..shape.k_dim];
        for (i, part) in k.chunks(LANES).enumerate() {
            let rounded = T::round(s, s.load_part(part));
            // SAFETY: the caller of this operation promises that the position is its own.
            unsafe { args.pages.store_key(head, args.position, i * LANES, &rounded[..part.len()]) };
        }
        let v = &args.v[head * shape.v_dim..][..shape.v_dim];
        for (i, part) in v.chunks(LANES).enumerate() {
            let rounded = T::round(s, s.load_part(part));
            // SAFETY: as for the keys.
            unsafe { args.pages.store_value(head, args.position, i * LANES, &rounded) };
        }
    }
}
