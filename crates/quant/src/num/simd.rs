//! The vocabulary of 16 virtual f32 lanes in which the f32 operations are written once for every tier.

/// Virtual lanes of every f32 operation, whatever the registers of the machine.
pub const LANES: usize = 16;

/// Sixteen f32 lanes on some instruction set.
///
/// A value of an implementing type proves that this machine has the instructions; implementations for wide
/// instruction sets are therefore only constructed by `unsafe` functions. Every method must give the bits that
/// [`Scalar`](super::Scalar) gives, lane by lane, for operands that are not NaN.
///
/// A function over lanes gets the instructions of a tier by being inlined into a function that is compiled for it. So
/// it is `#[inline(always)]` itself, and no lanes pass through closures, which cannot be.
pub trait Simd: Copy {
    /// How many values of sixteen lanes the registers hold: algorithms choose the size of their tiles by it.
    const REGISTERS: usize;

    /// Sixteen f32.
    type F: Copy;
    /// Sixteen truth values.
    type M: Copy;

    /// All lanes equal `x`.
    fn splat(self, x: f32) -> Self::F;
    /// Sixteen consecutive values.
    fn load(self, x: &[f32; LANES]) -> Self::F;
    /// Sixteen consecutive f16, exactly.
    fn load_f16(self, x: &[u16; LANES]) -> Self::F;
    /// Stores sixteen consecutive values.
    fn store(self, v: Self::F, out: &mut [f32; LANES]);
    /// Stores sixteen values rounded to f16, to nearest even.
    fn store_f16(self, v: Self::F, out: &mut [u16; LANES]);
    /// `a + b`
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`, correctly rounded.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c` with one rounding.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `-a`
    fn neg(self, a: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a < b`; false where one is NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// Whether a lane is NaN.
    fn is_nan(self, a: Self::F) -> Self::M;
    /// `if m { a } else { b }`
    fn select(self, m: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// The bits of `v` plus the bits of `t` shifted left by 23, as integers: adds to the exponent of `v` the integer
    /// in the low bits of the significand of `t`.
    fn add_exponent(self, v: Self::F, t: Self::F) -> Self::F;

    /// Asks for the cache line of an address that will be read soon, wherever it points to.
    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}

    /// Up to sixteen values; the missing lanes are +0.
    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Self::F {
        let mut all = [0.0; LANES];
        all[..x.len()].copy_from_slice(x);
        self.load(&all)
    }

    /// Stores the first `out.len()` lanes, at most sixteen.
    #[inline(always)]
    fn store_part(self, v: Self::F, out: &mut [f32]) {
        let mut all = [0.0; LANES];
        self.store(v, &mut all);
        out.copy_from_slice(&all[..out.len()]);
    }

    /// The lanes as an array.
    #[inline(always)]
    fn to_array(self, v: Self::F) -> [f32; LANES] {
        let mut all = [0.0; LANES];
        self.store(v, &mut all);
        all
    }

    /// The sum of all lanes by the tree 8-4-2-1: lane `i` takes lane `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    #[inline(always)]
    fn reduce_add(self, v: Self::F) -> f32 {
        super::sum::tree(self.to_array(v), |a, b| a + b)
    }

    /// The maximum of all lanes, by the same tree.
    #[inline(always)]
    fn reduce_max(self, v: Self::F) -> f32 {
        super::sum::tree(self.to_array(v), |a, b| if a > b { a } else { b })
    }
}
