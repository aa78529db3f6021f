//! A small deterministic generator for test data.

/// The `SplitMix64` generator: every seed gives its own sequence, the same on every machine.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1. (The slight bias of the remainder is no matter to tests.)
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// One of some choices.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Uniform in -1..1, a multiple of 2^-23.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    /// A bell-shaped value of mean 0 and standard deviation 1, within -3.5..3.5: the sum of twelve uniform ones.
    pub fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() * 0.5
    }

    /// Random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.bits().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}
