use cera_testkit::rng::Rng;

use super::*;
use crate::args::OutMat;
use crate::scalar::ops::state_space;

/// Random inputs of some tokens. States are `[heads, state_dim, head_dim]`.
struct Case {
    shape: StateSpace,
    rows: Vec<f32>,
    dt: Vec<f32>,
    dt_bias: Vec<f32>,
    a: Vec<f32>,
    skip: Vec<f32>,
    state: Vec<f32>,
}

impl Case {
    fn new(shape: StateSpace, tokens: usize, seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let mut normal = |len: usize| (0..len).map(|_| 0.7 * rng.normal()).collect::<Vec<_>>();
        Case {
            shape,
            rows: normal(tokens * shape.row_len()),
            dt: normal(tokens * shape.heads),
            dt_bias: normal(shape.heads),
            a: normal(shape.heads).into_iter().map(|x| -x.abs()).collect(),
            skip: normal(shape.heads),
            state: normal(shape.heads * shape.state_dim * shape.head_dim),
        }
    }

    /// The state as the operation keeps it.
    fn tiled(&self) -> Vec<f32> {
        let StateSpace { head_dim, state_dim, .. } = self.shape;
        let mut tiled = vec![0.0; self.shape.state_len()];
        for (i, &x) in self.state.iter().enumerate() {
            let (head, n, p) = (i / head_dim / state_dim, i / head_dim % state_dim, i % head_dim);
            tiled[((head * self.shape.tiles() + p / LANES) * state_dim + n) * LANES + p % LANES] = x;
        }
        tiled
    }

    /// The operation on some tokens, each head in pieces of so many tiles: the results and the state after them.
    fn run(&self, tokens: Range<usize>, pieces: usize, state: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let shape = self.shape;
        let mut out = vec![f32::NAN; tokens.len() * shape.out_len()];
        let mut after = vec![f32::NAN; state.len()];
        for head in 0..shape.heads {
            for first in (0..shape.tiles()).step_by(pieces) {
                let tiles = first..shape.tiles().min(first + pieces);
                let at = head * shape.tiles();
                let span = (at + tiles.start) * shape.tile_len()..(at + tiles.end) * shape.tile_len();
                let column = head * shape.head_dim + tiles.start * LANES;
                let columns = shape.head_dim.min(tiles.end * LANES) - tiles.start * LANES;
                let to = out.as_mut_ptr().wrapping_add(column);
                state_space(&mut StateSpaceArgs {
                    shape,
                    rows: &self.rows[tokens.start * shape.row_len()..tokens.end * shape.row_len()],
                    dt: &self.dt[tokens.start * shape.heads..tokens.end * shape.heads],
                    dt_bias: &self.dt_bias,
                    a: &self.a,
                    skip: &self.skip,
                    piece: ScanPiece {
                        head,
                        tiles,
                        before: &state[span.clone()],
                        after: &mut after[span],
                        // SAFETY: the columns lie inside of the rows of `out`, and the test is one thread.
                        out: unsafe { OutMat::from_raw(to, tokens.len(), columns, shape.out_len()) },
                    },
                });
            }
        }
        (out, after)
    }

    /// The definition in f64: the results.
    fn oracle(&self, tokens: usize) -> Vec<f64> {
        let StateSpace { heads, groups, head_dim, state_dim } = self.shape;
        let mut state: Vec<f64> = self.state.iter().copied().map(f64::from).collect();
        let mut out = Vec::new();
        for t in 0..tokens {
            let row: Vec<f64> = self.rows[t * self.shape.row_len()..][..self.shape.row_len()]
                .iter()
                .map(|&x| x.into())
                .collect();
            for (head, state) in state.chunks_mut(state_dim * head_dim).enumerate() {
                let raw = f64::from(self.dt[t * heads + head]) + f64::from(self.dt_bias[head]);
                let dt = libm::log1p(libm::exp(raw));
                let decay = libm::exp(f64::from(self.a[head]) * dt);
                let group = head * groups / heads;
                let b = &row[heads * head_dim + group * state_dim..][..state_dim];
                let c = &row[heads * head_dim + (groups + group) * state_dim..][..state_dim];
                for p in 0..head_dim {
                    let x = row[head * head_dim + p];
                    let mut y = f64::from(self.skip[head]) * x;
                    for n in 0..state_dim {
                        let s = &mut state[n * head_dim + p];
                        *s = *s * decay + b[n] * x * dt;
                        y += *s * c[n];
                    }
                    out.push(y);
                }
            }
        }
        out
    }
}

fn cases() -> impl Iterator<Item = (Case, usize)> {
    let sizes = [(1, 1, 1, 1), (2, 1, 16, 4), (4, 2, 20, 7), (3, 3, 48, 16), (8, 1, 64, 5), (2, 1, 33, 128)];
    sizes.into_iter().enumerate().map(|(i, (heads, groups, head_dim, state_dim))| {
        let tokens = [1, 40, 70, 5, 33, 3][i];
        (Case::new(StateSpace { heads, groups, head_dim, state_dim }, tokens, i as u64), tokens)
    })
}

#[test]
fn scans_agree_with_the_definition() {
    for (case, tokens) in cases() {
        let (out, _) = case.run(0..tokens, 2, &case.tiled());
        for (i, (got, want)) in out.iter().zip(case.oracle(tokens)).enumerate() {
            let near = (f64::from(*got) - want).abs() <= 1e-5 * (1.0 + want.abs());
            assert!(near, "{:?}: {i}: {got} {want}", case.shape);
        }
    }
}

#[test]
fn cuts_of_tokens_and_tiles_change_nothing() {
    for (case, tokens) in cases() {
        let whole = case.run(0..tokens, 9, &case.tiled());
        for (chunk, pieces) in [(1, 1), (7, 2), (32, 3)] {
            let (mut out, mut state) = (Vec::new(), case.tiled());
            for first in (0..tokens).step_by(chunk) {
                let (part, after) = case.run(first..tokens.min(first + chunk), pieces, &state);
                out.extend(part);
                state = after;
            }
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!((bits(&out), bits(&state)), (bits(&whole.0), bits(&whole.1)), "{:?}", case.shape);
        }
    }
}

#[test]
fn no_token_changes_nothing() {
    let (case, _) = cases().nth(2).unwrap_or_else(|| panic!("there are more cases"));
    assert_eq!(case.run(0..0, 1, &case.tiled()), (Vec::new(), case.tiled()));
}
