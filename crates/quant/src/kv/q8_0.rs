//! The cache of type q8_0: blocks of 32 codes with one f16 scale, as the weight format `Q8_0` has them.
//!
//! In bytes, a page is, for every head:
//!
//! ```text
//! key codes    = [position / 16][k_dim / 4][16][4]   i8, the sixteen are positions
//! key scales   = [position / 16][k_dim / 32][16]     f16
//! value codes  = [position][v_dim]                   i8
//! value scales = [position][v_dim / 32]              f16
//! ```
//!
//! Heads are whole blocks: `k_dim` and `v_dim` are multiples of 32 ([`KvType::fits`](super::KvType::fits)).

use super::{AppendArgs, KvPages, KvShape, KvType, KvUnit, PAGE_KEYS};
use crate::blocks::quantize_q8_0;
use crate::num::{LANES, Simd};

/// Elements of a block.
pub const BLOCK: usize = 32;

/// Two bytes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Q8Unit(pub u16);

/// Bytes of the codes and scales of `dim` elements at all positions of a page.
const fn bytes(dim: usize) -> usize {
    PAGE_KEYS * (dim + dim / BLOCK * size_of::<u16>())
}

impl KvUnit for Q8Unit {
    const TYPE: KvType = KvType::Q8_0;

    fn head_len(shape: KvShape) -> usize {
        (bytes(shape.k_dim) + bytes(shape.v_dim)) / size_of::<Q8Unit>()
    }
}

/// The codes of a page with their scales.
#[derive(Debug, Clone, Copy)]
pub struct Q8Page<'a, C, D> {
    /// The codes.
    pub codes: &'a [C],
    /// The bits of the f16 scales.
    pub scales: &'a [D],
}

/// Keys: codes as `[position / 16][k_dim / 4]`, scales as `[position / 16][k_dim / 32]`.
pub type Q8Keys<'a> = Q8Page<'a, [[i8; 4]; LANES], [u16; LANES]>;

/// Values: codes as `[position][v_dim / 16]`, scales as `[position][v_dim / 32]`.
pub type Q8Values<'a> = Q8Page<'a, [i8; LANES], u16>;

impl<'a> KvPages<'a, Q8Unit> {
    /// The bytes of a head in a page.
    fn bytes(&self, head: usize, page: usize) -> *mut u8 {
        self.head(head, page * PAGE_KEYS).cast()
    }

    /// All of the keys of a page, and all of its values: the bytes of codes and scales.
    ///
    /// # Panics
    /// If there is no such page or head.
    #[inline(always)]
    pub fn q8_bytes(&self, head: usize, page: usize) -> [&'a [u8]; 2] {
        let (at, KvShape { k_dim, v_dim, .. }) = (self.bytes(head, page), self.shape());
        // SAFETY: as in `q8_keys`.
        unsafe {
            [
                std::slice::from_raw_parts(at, bytes(k_dim)),
                std::slice::from_raw_parts(at.wrapping_add(bytes(k_dim)), bytes(v_dim)),
            ]
        }
    }

    /// The keys of a page.
    ///
    /// # Panics
    /// If there is no such page or head.
    #[inline(always)]
    pub fn q8_keys(&self, head: usize, page: usize) -> Q8Keys<'a> {
        let (at, k_dim) = (self.bytes(head, page), self.shape().k_dim);
        let (codes, scales) = (PAGE_KEYS * k_dim / (4 * LANES), PAGE_KEYS / LANES * (k_dim / BLOCK));
        // SAFETY: the head and the page exist, so its codes and the scales after them lie inside of the page, at even
        // offsets; `from_raw` was promised that it is initialised and that positions being read are not written.
        unsafe {
            Q8Page {
                codes: std::slice::from_raw_parts(at.cast(), codes),
                scales: std::slice::from_raw_parts(at.wrapping_add(PAGE_KEYS * k_dim).cast(), scales),
            }
        }
    }

    /// The values of a page.
    ///
    /// # Panics
    /// If there is no such page or head.
    #[inline(always)]
    pub fn q8_values(&self, head: usize, page: usize) -> Q8Values<'a> {
        let KvShape { k_dim, v_dim, .. } = self.shape();
        let at = self.bytes(head, page).wrapping_add(bytes(k_dim));
        // SAFETY: as in `q8_keys`; the values of a head follow its keys.
        unsafe {
            Q8Page {
                codes: std::slice::from_raw_parts(at.cast(), PAGE_KEYS * v_dim / LANES),
                scales: std::slice::from_raw_parts(
                    at.wrapping_add(PAGE_KEYS * v_dim).cast(),
                    PAGE_KEYS * (v_dim / BLOCK),
                ),
            }
        }
    }

    /// Writes block `block` of the key of a position.
    ///
    /// # Safety
    /// As [`KvPages::store_key`].
    unsafe fn store_key_block(&self, head: usize, position: usize, block: usize, x: &[f32; BLOCK]) {
        let (at, k_dim) = (self.bytes(head, position / PAGE_KEYS), self.shape().k_dim);
        assert!(block < k_dim / BLOCK, "key block {block} of {k_dim} elements");
        let (scale, codes) = quantize_q8_0(x);
        let (group, lane) = (position % PAGE_KEYS / LANES, position % LANES);
        for (i, four) in codes.as_chunks::<4>().0.iter().enumerate() {
            let four_at = (group * (k_dim / 4) + block * (BLOCK / 4) + i) * LANES + lane;
            // SAFETY: the assertion and `bytes` keep the codes inside of those of the head; the caller promises that nobody
            // else uses this position now.
            unsafe { at.cast::<[i8; 4]>().wrapping_add(four_at).write(*four) };
        }
        let scales = at.wrapping_add(PAGE_KEYS * k_dim).cast::<u16>();
        // SAFETY: as for the codes; pages are at even addresses and scales at even offsets.
        unsafe { scales.wrapping_add((group * (k_dim / BLOCK) + block) * LANES + lane).write(scale) };
    }

    /// Writes block `block` of the value of a position.
    ///
    /// # Safety
    /// As [`KvPages::store_value`].
    unsafe fn store_value_block(&self, head: usize, position: usize, block: usize, x: &[f32; BLOCK]) {
        let KvShape { k_dim, v_dim, .. } = self.shape();
        assert!(block < v_dim / BLOCK, "value block {block} of {v_dim} elements");
        let at = self.bytes(head, position / PAGE_KEYS).wrapping_add(bytes(k_dim));
        let (scale, codes) = quantize_q8_0(x);
        let index = position % PAGE_KEYS * (v_dim / BLOCK) + block;
        let scales = at.wrapping_add(PAGE_KEYS * v_dim).cast::<u16>();
        // SAFETY: as in `store_key_block`.
        unsafe {
            at.cast::<[i8; BLOCK]>().wrapping_add(index).write(codes);
            scales.wrapping_add(index).write(scale);
        }
    }
}

/// As [`append`](super::append), to a cache of type q8_0: each 32 elements as [`quantize_row`](crate::blocks::quantize_row)
/// makes them `Q8_0`, but for a scale that is NaN or infinite where the elements are or it is beyond f16.
///
/// # Safety
/// As [`append`](super::append).
///
/// # Panics
/// As [`append`](super::append), and if heads are not whole blocks.
#[inline(always)]
pub unsafe fn append_q8_0<S: Simd>(_s: S, args: &mut AppendArgs<'_, Q8Unit>) {
    let shape = args.pages.shape();
    assert!(KvType::Q8_0.fits(shape), "append: heads of {} and {} elements", shape.k_dim, shape.v_dim);
    assert_eq!(args.k.len(), shape.heads * shape.k_dim, "append: elements of k");
    assert_eq!(args.v.len(), shape.heads * shape.v_dim, "append: elements of v");
    for (i, x) in args.k.as_chunks().0.iter().enumerate() {
        let blocks = shape.k_dim / BLOCK;
        // SAFETY: the caller of this operation promises that the position is its own.
        unsafe { args.pages.store_key_block(i / blocks, args.position, i % blocks, x) };
    }
    for (i, x) in args.v.as_chunks().0.iter().enumerate() {
        let blocks = shape.v_dim / BLOCK;
        // SAFETY: as for the keys.
        unsafe { args.pages.store_value_block(i / blocks, args.position, i % blocks, x) };
    }
}
