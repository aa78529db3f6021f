//! Where the fields of every block format stand in the file, in the order in which the packed layout has them.

use super::form::{Codes, Form};
use super::quad::{QUAD_ROWS, Quad};
use super::{STRIP_ROWS, VECTOR, strip_block_bytes};
use crate::Format;

/// Bytes of a block that are not codes: scales and minima.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// The first byte in the block of the file.
    pub(super) at: usize,
    /// Bytes per row. The packed layout keeps units of `min(bytes, 4)` bytes together and puts those of the 16 rows
    /// side by side.
    pub(super) bytes: usize,
}

impl Head {
    /// Bytes that stay together.
    pub(super) const fn unit(self) -> usize {
        if self.bytes < 4 { self.bytes } else { 4 }
    }

    /// Where a head that starts at byte `at` of a block of a strip has the `unit`-th unit of `row`.
    #[inline(always)]
    pub(super) const fn unit_at(self, at: usize, unit: usize, row: usize) -> usize {
        at + self.unit() * (STRIP_ROWS * unit + row)
    }
}

/// The order of a field of the codes in the file. `g` is the group of 32 elements, `l` an element of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Byte `16g + l` has elements `l` (low half) and `16 + l` (high half).
    Halves,
    /// Bit `l` of the `g`-th little-endian word of 32 bits.
    Word,
    /// Runs of 32 bytes, byte `l` of a run for the elements `l` of `8 / width` consecutive groups, lowest bits first.
    Runs,
    /// Pairs of runs of 32 bytes for four groups: low halves of both runs, then high halves of both.
    PairedRuns,
}

/// One field of the codes: all bits of it, or some bits where the format keeps them apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    /// The first byte in the block of the file.
    pub(super) at: usize,
    /// The order in the file.
    pub(super) order: Order,
    /// The form in the packed layout, which gives the width too.
    pub(super) form: Form,
    /// The position in the code.
    pub(super) shift: usize,
}

/// The fields of a block format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    /// Scales and minima, in the order of the packed layout.
    pub(super) heads: &'static [Head],
    /// The fields of the codes, in the order of the packed layout.
    pub(super) planes: &'static [Plane],
    /// Groups of 32 elements.
    pub(super) groups: usize,
}

const fn head(at: usize, bytes: usize) -> Head {
    Head { at, bytes }
}

const fn plane(at: usize, order: Order, form: Form, shift: usize) -> Plane {
    Plane { at, order, form, shift }
}

impl Fields {
    /// The fields of a format, or `None` for plain floats.
    #[rustfmt::skip]
    pub(super) const fn of(format: Format) -> Option<Fields> {
        use Form::{Bits, Bytes, Nibbles, Pairs};
        use Order::{Halves, PairedRuns, Runs, Word};
        let (heads, planes): (&'static [Head], &'static [Plane]) = match format {
            Format::F32 | Format::F16 | Format::BF16 => return None,
            Format::Q4_0 | Format::IQ4_NL => {
                (const { &[head(0, 2)] }, const { &[plane(2, Halves, Nibbles, 0)] })
            }
            Format::Q4_1 => (const { &[head(0, 2), head(2, 2)] }, const { &[plane(4, Halves, Nibbles, 0)] }),
            Format::Q5_0 => (
                const { &[head(0, 2)] },
                const { &[plane(6, Halves, Nibbles, 0), plane(2, Word, Bits, 4)] },
            ),
            Format::Q5_1 => (
                const { &[head(0, 2), head(2, 2)] },
                const { &[plane(8, Halves, Nibbles, 0), plane(4, Word, Bits, 4)] },
            ),
            Format::Q8_0 => (const { &[head(0, 2)] }, const { &[plane(2, Runs, Bytes, 0)] }),
            Format::MXFP4 => (const { &[head(0, 1)] }, const { &[plane(1, Halves, Nibbles, 0)] }),
            Format::Q2_K => (
                const { &[head(80, 2), head(82, 2), head(0, 16)] },
                const { &[plane(16, Runs, Pairs, 0)] },
            ),
            Format::Q3_K => (
                const { &[head(108, 2), head(96, 12)] },
                const { &[plane(32, Runs, Pairs, 0), plane(0, Runs, Bits, 2)] },
            ),
            Format::Q4_K => (
                const { &[head(0, 2), head(2, 2), head(4, 12)] },
                const { &[plane(16, Runs, Nibbles, 0)] },
            ),
            Format::Q5_K => (
                const { &[head(0, 2), head(2, 2), head(4, 12)] },
                const { &[plane(48, Runs, Nibbles, 0), plane(16, Runs, Bits, 4)] },
            ),
            Format::Q6_K => (
                const { &[head(208, 2), head(192, 16)] },
                const { &[plane(0, PairedRuns, Nibbles, 0), plane(128, Runs, Pairs, 4)] },
            ),
            Format::IQ4_XS => (
                const { &[head(0, 2), head(2, 2), head(4, 4)] },
                const { &[plane(8, Halves, Nibbles, 0)] },
            ),
        };
        Some(Fields { heads, planes, groups: format.block_len() / 32 })
    }

    /// Bytes of the heads of 16 rows, which stand before the codes.
    pub(super) const fn head_bytes(&self) -> usize {
        let (mut sum, mut i) = (0, 0);
        while i < self.heads.len() {
            sum += STRIP_ROWS * self.heads[i].bytes;
            i += 1;
        }
        sum
    }

    /// Bytes of the codes of one group of 16 rows.
    pub(super) const fn group_bytes(&self) -> usize {
        let (mut sum, mut i) = (0, 0);
        while i < self.planes.len() {
            sum += VECTOR * self.planes[i].form.vectors();
            i += 1;
        }
        sum
    }

    /// The fields of a format that has blocks.
    ///
    /// # Panics
    /// For plain floats.
    pub(crate) const fn of_blocks(format: Format) -> Fields {
        Fields::of(format).expect("plain floats have no blocks")
    }

    /// The bytes of row `row` in the head `index` of a packed block.
    ///
    /// # Panics
    /// If the head has not `N` bytes.
    #[inline(always)]
    pub(crate) fn head<const N: usize>(&self, block: &[u8], index: usize, row: usize) -> [u8; N] {
        let head = self.heads[index];
        assert!(head.bytes == N, "bytes of a head");
        let before = &self.heads[..index];
        let at = STRIP_ROWS * before.iter().map(|head| head.bytes).sum::<usize>();
        std::array::from_fn(|i| block[head.unit_at(at, i / head.unit(), row) + i % head.unit()])
    }

    /// The codes of group `group` of row `row` of a packed block, as the file has them: no offset is taken off.
    #[inline(always)]
    pub(crate) fn codes(&self, block: &[u8], group: usize, row: usize) -> [u8; 32] {
        let mut at = self.head_bytes() + group * self.group_bytes();
        let mut codes: Codes = [0; 8];
        for plane in self.planes {
            let end = at + VECTOR * plane.form.vectors();
            let field = plane.form.get(row, &block[at..end]);
            for (code, field) in codes.iter_mut().zip(field) {
                *code |= field << plane.shift;
            }
            at = end;
        }
        std::array::from_fn(|e| codes[e / 4].to_le_bytes()[e % 4])
    }
}

/// The packed form has the bytes of the file, and every field lies inside of the block.
const _: () = {
    let mut i = 0;
    while i < Format::COUNT {
        let format = Format::ALL[i];
        if let Some(fields) = Fields::of(format) {
            assert!(fields.head_bytes() + fields.groups * fields.group_bytes() == strip_block_bytes(format));
            assert!(format.block_len() == 32 * fields.groups);
        }
        i += 1;
    }
};

/// Where the bits of group `group` stand in a plane of runs: the run, and the position in its bytes.
#[inline(always)]
fn run(plane: Plane, group: usize) -> (usize, usize) {
    match plane.order {
        Order::PairedRuns => (group / 4 * 2 + group % 2, 4 * (group / 2 % 2)),
        _ => {
            let width = plane.form.width();
            (group * width / 8, group * width % 8)
        }
    }
}

#[inline(always)]
fn load<const N: usize>(bytes: &[u8], at: usize) -> [u32; N] {
    let bytes = &bytes[at..at + 4 * N];
    std::array::from_fn(|t| {
        u32::from_le_bytes([bytes[4 * t], bytes[4 * t + 1], bytes[4 * t + 2], bytes[4 * t + 3]])
    })
}

/// ORs words into bytes.
#[inline(always)]
fn merge<const N: usize>(bytes: &mut [u8], at: usize, words: [u32; N]) {
    let old: [u32; N] = load(bytes, at);
    for (t, (old, word)) in old.into_iter().zip(words).enumerate() {
        bytes[at + 4 * t..at + 4 * t + 4].copy_from_slice(&(old | word).to_le_bytes());
    }
}

/// The first four bytes of each row from byte `at` of its block.
#[inline(always)]
fn column<const BLOCK: usize>(blocks: &[&[u8; BLOCK]; QUAD_ROWS], at: usize) -> Quad {
    Quad::of(blocks.map(|block| load::<1>(block, at)[0]))
}

/// As [`column`] for four times four bytes.
#[inline(always)]
fn columns<const BLOCK: usize>(blocks: &[&[u8; BLOCK]; QUAD_ROWS], at: usize) -> [Quad; 4] {
    const NONE: &[u8; 16] = &[0; 16];
    Quad::columns(blocks.map(|block| block[at..].first_chunk().unwrap_or(NONE)))
}

impl Plane {
    /// The field of group `group` in a block of each of four rows of the file.
    #[inline(always)]
    pub(super) fn read<const BLOCK: usize>(
        self,
        blocks: &[&[u8; BLOCK]; QUAD_ROWS],
        group: usize,
    ) -> Codes<Quad> {
        let mask = Quad::splat(self.form.mask());
        match self.order {
            Order::Halves => {
                let words = columns(blocks, self.at + 16 * group);
                std::array::from_fn(|t| words[t % 4].shr(4 * (t / 4)).and(mask))
            }
            Order::Word => {
                let bits = column(blocks, self.at + 4 * group);
                std::array::from_fn(|t| {
                    // Bits 0 to 3 become the lowest bits of the four bytes.
                    let four = bits.shr(4 * t).and(Quad::splat(15));
                    four.or(four.shl(7)).or(four.shl(14)).or(four.shl(21)).and(mask)
                })
            }
            Order::Runs | Order::PairedRuns => {
                let (run, shift) = run(self, group);
                let at = self.at + 32 * run;
                let [low, high] = [columns(blocks, at), columns(blocks, at + 16)];
                std::array::from_fn(|t| [low, high][t / 4][t % 4].shr(shift).and(mask))
            }
        }
    }

    /// ORs the field of group `group` into a block of the file: the inverse of [`Plane::read`] for one row, over zeros.
    #[inline(always)]
    pub(super) fn write(self, codes: &Codes, block: &mut [u8], group: usize) {
        match self.order {
            Order::Halves => {
                let words: [u32; 4] = std::array::from_fn(|t| codes[t] | codes[4 + t] << 4);
                merge(block, self.at + 16 * group, words);
            }
            Order::Word => {
                // Bit 0 of byte `i` of a word goes to bit `24 + i` of the product.
                let bit4 = |code: u32| code.wrapping_mul(1 << 24 | 1 << 17 | 1 << 10 | 1 << 3) >> 24 & 15;
                let bits = (0..8).fold(0, |bits, t| bits | bit4(codes[t]) << (4 * t));
                merge(block, self.at + 4 * group, [bits]);
            }
            Order::Runs | Order::PairedRuns => {
                let (run, shift) = run(self, group);
                merge(block, self.at + 32 * run, codes.map(|code| code << shift));
            }
        }
    }
}
