//! How the answer's tokens are chosen, as arguments.

use cera_models::sampling::SamplingParams;

/// Arguments of sampling; what is not given is as in [`SamplingParams::default`].
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// 0 always takes the most probable token [default: 0.8].
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temp: Option<f32>,
    /// Choose among this many most probable tokens; 0 is off [default: 40].
    #[arg(long, value_name = "N")]
    top_k: Option<u32>,
    /// Choose among the most probable tokens that reach this probability; 1 is off [default: 0.95].
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Leave out tokens less probable than this fraction of the best; 0 is off [default: 0.05].
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Weaken the tokens of the last 64; 1 is off [default: 1].
    #[arg(long, value_name = "X")]
    repeat_penalty: Option<f32>,
    /// The seed of the random numbers: the same seed gives the same text, on every machine.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl SamplingArgs {
    /// The parameters.
    pub(crate) fn params(&self) -> SamplingParams {
        let default = SamplingParams::default();
        SamplingParams {
            temperature: self.temp.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(default.repeat_penalty),
            seed: self.seed,
            ..default
        }
    }
}
