//! The executor: runs a planned graph over the tokens of one or more sequences.

mod batch;
mod memory;
mod pass;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cera_quant::kv::KvType;

use self::batch::{Batch, Run};
use self::memory::Memory;
use self::pass::Pass;
use crate::error::Error;
use crate::graph::{Graph, ValueId};
use crate::plan::Plan;
use crate::pool::{CancelToken, Session, panic_message};
use crate::resident::{Resident, ResidentStats};
use crate::runtime::Runtime;
use crate::state::{Held, SeqState, StateSpec};
use crate::weights::{Matrix, MatrixShape};

/// Whose logits a step gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Of no token.
    None,
    /// Of the last token.
    Last,
    /// Of every token.
    All,
}

impl Want {
    /// Whether the logits of token `token` of `len` are wanted.
    fn includes(self, token: usize, len: usize) -> bool {
        match self {
            Want::None => false,
            Want::Last => token + 1 == len,
            Want::All => true,
        }
    }

    /// How many of `len` tokens have wanted logits.
    fn count(self, len: usize) -> usize {
        match self {
            Want::None => 0,
            Want::Last => len.min(1),
            Want::All => len,
        }
    }
}

/// The tokens that a step adds to one sequence.
#[derive(Debug)]
pub struct SeqStep<'a> {
    /// The sequence.
    pub state: &'a mut SeqState,
    /// The tokens to add.
    pub tokens: &'a [u32],
    /// Whose logits are wanted.
    pub want: Want,
}

/// The logits of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    vocabulary: usize,
    data: Vec<f32>,
    /// The first row of every sequence, and the number of rows at the end.
    starts: Vec<usize>,
}

impl Logits {
    /// Elements of a row.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// All rows: those of the first sequence, then those of the next.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// As [`Logits::data`], without a copy.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    /// The rows of one sequence of the step, one after the other; as many as were wanted.
    ///
    /// # Panics
    /// If the step had no such sequence.
    pub fn sequence(&self, step: usize) -> &[f32] {
        &self.data[self.starts[step] * self.vocabulary..self.starts[step + 1] * self.vocabulary]
    }
}

/// How a program is planned and run. None of it changes a bit of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramOptions {
    /// Tokens of a pass at most; more than 4096 count as 4096.
    pub chunk: usize,
    /// Whether ops are fused where a fused form exists.
    pub fuse: bool,
}

impl Default for ProgramOptions {
    fn default() -> ProgramOptions {
        ProgramOptions { chunk: 512, fuse: true }
    }
}

/// The most tokens of a pass: the chunks of a phase of attention are tokens times heads.
const MAX_CHUNK: usize = 4096;

/// Receives the rows of a dumped value: its id and the rows of one pass.
pub type Tap<'a> = &'a mut dyn FnMut(ValueId, &[f32]);

/// What one phase took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseTime {
    /// The work: `local`, `products`, `attention`, `recurrence`, or `fetch` where experts are brought to memory.
    pub work: &'static str,
    /// The first value that the phase gives; empty if it gives none.
    pub value: String,
    /// The time of all passes.
    pub time: Duration,
}

/// What a step may do besides.
struct Extras<'a> {
    values: &'a [ValueId],
    tap: Tap<'a>,
    cancel: Option<&'a CancelToken>,
    /// The time of every phase, if it is asked for.
    times: Option<&'a mut [Duration]>,
}

/// A planned graph with its weights, ready to run.
#[derive(Debug)]
pub struct Program {
    graph: Graph,
    plan: Plan,
    state: Arc<StateSpec>,
    weights: Vec<Matrix>,
    runtime: Arc<Runtime>,
    options: ProgramOptions,
    /// The experts in memory, if not all are.
    resident: Option<Resident>,
    workspace: Mutex<Option<Memory>>,
}

impl Program {
    /// Plans `graph` over `weights`, one matrix per [`Graph::matrices`].
    ///
    /// # Errors
    /// [`Error::Weight`] if a matrix is missing or is not what the graph declares.
    pub fn new(
        graph: Graph,
        weights: Vec<Matrix>,
        runtime: Arc<Runtime>,
        options: ProgramOptions,
    ) -> Result<Program, Error> {
        let shown = |MatrixShape { format, stack, m, k }| match stack {
            1 => format!("{format} [{m}, {k}]"),
            _ => format!("{format} [{stack}, {m}, {k}]"),
        };
        for (i, info) in graph.matrices.iter().enumerate() {
            let expected = shown(info.shape());
            let got = weights.get(i).map_or("nothing".to_owned(), |w| shown(w.shape()));
            if expected != got {
                return Err(Error::Weight { name: info.name.clone(), expected, got });
            }
        }
        let plan = Plan::new(&graph, options.fuse);
        let state = Arc::new(graph.state.clone());
        let options = ProgramOptions { chunk: options.chunk.clamp(1, MAX_CHUNK), ..options };
        let workspace = Mutex::new(None);
        Ok(Program { graph, plan, state, weights, runtime, options, resident: None, workspace })
    }

    /// The same program, which keeps at most `budget` bytes of the experts packed that were given as they stand in a file:
    /// those that were used last. The others are packed when they are chosen, or worked on strip by strip.
    #[must_use]
    pub fn with_resident_budget(self, budget: usize) -> Program {
        Program { resident: Some(Resident::new(budget)), ..self }
    }

    /// What the budget for experts has been used for, if there is one.
    pub fn resident_stats(&self) -> Option<ResidentStats> {
        self.resident.as_ref().map(Resident::stats)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The weights, in the order of [`Graph::matrices`].
    pub fn weights(&self) -> &[Matrix] {
        &self.weights
    }

    /// The runtime.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Bytes of working memory for passes of `tokens` tokens.
    pub fn workspace_bytes(&self, tokens: usize) -> usize {
        self.plan.bytes_per_token() * tokens
    }

    /// An empty sequence that can grow to `limit` positions. Steps of it fail with [`Error::KvBlocks`] if the heads of the
    /// graph are not whole blocks of the KV type.
    pub fn new_state(&self, kv: KvType, limit: usize) -> SeqState {
        SeqState::new(self.state.clone(), kv, limit)
    }

    /// Adds tokens to sequences and gives the wanted logits. Every sequence gets the bits that it gets alone.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::ContextFull`], [`Error::KvBlocks`] or [`Error::StateMismatch`], before anything is computed;
    /// [`Error::NonFinite`] if a wanted logit is not finite; [`Error::Nested`] if called from inside of a step. In all
    /// cases, and after [`Error::Panic`], no state has changed.
    pub fn step(&self, steps: &mut [SeqStep<'_>]) -> Result<Logits, Error> {
        self.run(steps, Extras { values: &[], tap: &mut |_, _| {}, cancel: None, times: None })
    }

    /// As [`Program::step`], and stops early when `cancel` asks for it.
    ///
    /// # Errors
    /// As [`Program::step`], and [`Error::Cancelled`], after which no state has changed either.
    pub fn step_cancellable(&self, steps: &mut [SeqStep<'_>], cancel: &CancelToken) -> Result<Logits, Error> {
        self.run(steps, Extras { values: &[], tap: &mut |_, _| {}, cancel: Some(cancel), times: None })
    }

    /// As [`Program::step`], and gives what every phase took, one after the other. Phases are dispatched one by one for that,
    /// so that the whole takes longer.
    ///
    /// # Errors
    /// As [`Program::step`].
    pub fn step_timed(&self, steps: &mut [SeqStep<'_>]) -> Result<(Logits, Vec<PhaseTime>), Error> {
        let mut times = vec![Duration::ZERO; self.plan.phases.len()];
        let extras = Extras { values: &[], tap: &mut |_, _| {}, cancel: None, times: Some(&mut times) };
        let logits = self.run(steps, extras)?;
        let named = times.into_iter().enumerate().map(|(phase, time)| {
            let value = self.plan.defined_in.iter().position(|&defined| defined == phase);
            let value = value.map_or(String::new(), |value| self.graph.values[value].name.clone());
            PhaseTime { work: self.plan.phases[phase].work(), value, time }
        });
        Ok((logits, named.collect()))
    }

    /// As [`Program::step`], and hands the rows of `values` to `tap` after each pass' phase that computes them.
    ///
    /// # Errors
    /// As [`Program::step`].
    pub fn step_with_taps(
        &self,
        steps: &mut [SeqStep<'_>],
        values: &[ValueId],
        tap: Tap<'_>,
    ) -> Result<Logits, Error> {
        self.run(steps, Extras { values, tap, cancel: None, times: None })
    }

    fn run(&self, steps: &mut [SeqStep<'_>], mut extras: Extras<'_>) -> Result<Logits, Error> {
        self.check(steps)?;
        let session = self.runtime.pool.enter()?;
        let lens: Vec<usize> = steps.iter().map(|step| step.tokens.len()).collect();
        let held: Vec<Held> = steps.iter().map(|step| step.state.hold()).collect();
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        // Other steps, which make room for experts too, have ended.
        let resident_then = self.resident.as_ref().map(Resident::now);
        let mut data = Vec::new();
        for runs in batch::passes(&lens, self.options.chunk) {
            let done = catch_unwind(AssertUnwindSafe(|| {
                self.pass(&session, &runs, (steps, &mut workspace), &mut extras, &mut data)
            }));
            if let Err(error) = done.unwrap_or_else(|payload| Err(Error::Panic(panic_message(&*payload)))) {
                for (step, held) in steps.iter_mut().zip(held) {
                    step.state.go_back(held);
                }
                if let (Some(resident), Some(then)) = (&self.resident, resident_then) {
                    resident.forget_since(then);
                }
                return Err(error);
            }
        }
        drop(held);
        steps.iter_mut().for_each(|step| step.state.drop_unseen());
        let mut starts = vec![0];
        for step in steps.iter() {
            starts.push(starts[starts.len() - 1] + step.want.count(step.tokens.len()));
        }
        Ok(Logits { vocabulary: self.graph.vocabulary(), data, starts })
    }

    fn check(&self, steps: &[SeqStep<'_>]) -> Result<(), Error> {
        for step in steps {
            if **step.state.spec() != *self.state {
                return Err(Error::StateMismatch);
            }
            step.state.check_room(step.tokens.len())?;
            for info in self.graph.matrices.iter().filter(|info| info.embedding) {
                let outside = step.tokens.iter().find(|&&token| token as usize >= info.m);
                if let Some(&token) = outside {
                    return Err(Error::Token { token, vocabulary: info.m });
                }
            }
        }
        Ok(())
    }

    /// Runs one pass, advances the states and appends the logits to `data`.
    fn pass(
        &self,
        session: &Session<'_>,
        runs: &[Run],
        (steps, workspace): (&mut [SeqStep<'_>], &mut Option<Memory>),
        extras: &mut Extras<'_>,
        data: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let Extras { values, tap, cancel, times } = extras;
        let batch = Batch::new(&self.graph, runs, steps)?;
        let memory = match workspace {
            Some(memory) if memory.capacity() >= batch.len() => memory,
            _ => workspace.insert(Memory::new(&self.plan, batch.len())?),
        };
        let pass = Pass::new(self, &batch, memory)?;
        if values.is_empty() && times.is_none() {
            session.run(&pass, 0..self.plan.phases.len(), *cancel)?;
        } else {
            for phase in 0..self.plan.phases.len() {
                let start = Instant::now();
                session.run(&pass, phase..phase + 1, *cancel)?;
                if let Some(times) = times {
                    times[phase] += start.elapsed();
                }
                for &value in values.iter().filter(|v| self.plan.defined_in[v.0] == phase) {
                    tap(value, pass.value(value));
                }
            }
        }
        pass.release_experts();
        let logits = pass.value(self.graph.logits);
        if let Some(at) = first_non_finite(logits) {
            let vocabulary = self.graph.vocabulary();
            let position = batch.positions[batch.outputs[at / vocabulary]];
            return Err(Error::NonFinite { position, token: at % vocabulary });
        }
        data.extend_from_slice(logits);
        for run in runs {
            steps[run.step].state.advance(run.tokens.len());
        }
        Ok(())
    }
}

/// The first element that is not finite.
fn first_non_finite(x: &[f32]) -> Option<usize> {
    const PART: usize = 1024;
    /// The bits of the exponent, and its lowest one: only all ones carry into the bit above.
    const EXPONENT: (u32, u32) = (0x7f80_0000, 0x0080_0000);
    let carries =
        |part: &[f32]| part.iter().fold(0, |all, x| all | ((x.to_bits() & EXPONENT.0) + EXPONENT.1));
    let part = x.chunks(PART).position(|part| carries(part) >> 31 == 1)?;
    let at = x[part * PART..].iter().position(|x| !x.is_finite())?;
    Some(part * PART + at)
}

#[cfg(all(test, not(loom)))]
mod tests;
