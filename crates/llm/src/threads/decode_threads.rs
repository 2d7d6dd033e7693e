//! Chooses the number of threads for decode by timing decode steps.
//!
//! Decode reads all weights for each token, and a few threads often saturate the memory bandwidth.
//! Further threads only wait and consume energy. The best number depends on the machine, the model
//! and other programs, so it is measured in the steps of answers: they try a few numbers, and try
//! them again when steps become slower or after 4,096 steps. The number of threads does not change
//! results.

use super::{MAX_THREADS, ON_BATTERY};
use hearth_kernels::team;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of consecutive decode steps of a model before fewer threads are tried or used. Draft
/// models have fewer consecutive steps: for them, threads would have to be put to sleep and woken
/// for each verification.
const MIN_CONSECUTIVE: u64 = 16;
/// Number of trials per number of threads. Other programs may disturb one of them.
const ROUNDS: u32 = 2;
/// Steps of a trial. The first one, which may wake threads, is not counted. Of the others, the
/// fastest counts.
const TRIAL_STEPS: u32 = 3;
/// If a number of threads is slower than a higher one by this factor, lower ones are not tried.
const MAX_SLOWDOWN: f64 = 1.25;
/// Maximum factor by which fewer threads may be slower: the measurement noise.
const TOLERANCE: f64 = 1.02;
/// [`TOLERANCE`] on battery.
const BATTERY_TOLERANCE: f64 = 1.15;
/// Minimum number of threads for trials. Two or three cores rarely saturate the memory bandwidth.
const MIN_THREADS: usize = 4;
/// Steps with the chosen number of threads before all numbers are tried again.
const STEPS_UNTIL_RETRY: u32 = 4096;
/// Number of steps of which the fastest is compared with the fastest step of the trials.
const WINDOW: u32 = 64;

/// The sequential number of a step in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StepNumber(u64);

impl StepNumber {
    /// The number of a new step.
    pub fn next() -> Self {
        static STEPS: AtomicU64 = AtomicU64::new(1);
        Self(STEPS.fetch_add(1, Ordering::Relaxed))
    }
}

/// Chooses the number of threads for the decode steps of one model.
#[derive(Debug, Default)]
pub(crate) struct DecodeThreads(Mutex<DecodeSteps>);

/// A decode step in progress. On drop, the team's number of threads is restored.
pub(crate) struct TimedStep<'a> {
    owner: &'a DecodeThreads,
    max: usize,
    threads: usize,
    start: Instant,
}

impl DecodeThreads {
    /// Begins a decode step of one sequence, and sets the team's number of threads. `None` means
    /// that the number is unchanged and the step is not timed.
    pub fn begin(&self, step: StepNumber) -> Option<TimedStep<'_>> {
        let max = MAX_THREADS.load(Ordering::Relaxed);
        if max < MIN_THREADS {
            return None;
        }
        let threads = self.lock().begin(step, max, ON_BATTERY.load(Ordering::Relaxed))?;
        team::set_threads(threads);
        Some(TimedStep {
            owner: self,
            max,
            threads,
            start: Instant::now(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, DecodeSteps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimedStep<'_> {
    /// Records the time of the complete step.
    pub fn finish(self) {
        let seconds = self.start.elapsed().as_secs_f64();
        self.owner.lock().tuning.record(self.threads, seconds);
    }
}

impl Drop for TimedStep<'_> {
    fn drop(&mut self) {
        // Unless the number was changed during the step.
        if MAX_THREADS.load(Ordering::Relaxed) == self.max {
            team::set_threads(self.max);
        }
    }
}

/// The decode steps so far, and the trials.
#[derive(Debug, Default)]
struct DecodeSteps {
    last: StepNumber,
    /// The number of consecutive steps before the last.
    consecutive: u64,
    tuning: Tuning,
}

impl DecodeSteps {
    /// The number of threads for a step. `None` means all threads, because there were too few
    /// consecutive steps before it.
    fn begin(&mut self, step: StepNumber, max: usize, on_battery: bool) -> Option<usize> {
        let is_consecutive = step.0 == self.last.0 + 1;
        self.consecutive = if is_consecutive { self.consecutive + 1 } else { 0 };
        self.last = step;
        // Steps with another context length or machine state are not comparable.
        if self.tuning.max != max || (!is_consecutive && !self.tuning.is_done()) {
            self.tuning = Tuning::new(max);
        }
        (self.consecutive >= MIN_CONSECUTIVE).then(|| self.tuning.threads(on_battery))
    }
}

/// The trials of one number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trial {
    threads: usize,
    /// Seconds of the fastest step; infinite if no step was timed.
    seconds: f64,
}

/// Seconds of the fastest step.
fn min_seconds(trials: &[Trial]) -> f64 {
    let seconds = trials.iter().map(|trial| trial.seconds);
    seconds.fold(f64::INFINITY, f64::min)
}

/// The trials of all numbers of threads.
#[derive(Debug, Default)]
struct Tuning {
    /// Maximum threads.
    max: usize,
    /// By descending number of threads, from `max` on.
    trials: Vec<Trial>,
    /// The number of complete rounds.
    rounds: u32,
    /// The index of the current trial, until all rounds are complete.
    current: usize,
    /// Steps of the current trial, or since the end of the trials.
    steps: u32,
    /// Seconds of the fastest step in the current window since the end of the trials.
    window_min: f64,
}

impl Tuning {
    fn new(max: usize) -> Self {
        let mut trials: Vec<Trial> = Vec::new();
        for threads in [max, max * 3 / 4, max / 2, max / 4] {
            if threads > 1 && trials.last().is_none_or(|last| last.threads > threads) {
                let seconds = f64::INFINITY;
                trials.push(Trial { threads, seconds });
            }
        }
        Self {
            max,
            trials,
            window_min: f64::INFINITY,
            ..Self::default()
        }
    }

    fn is_done(&self) -> bool {
        self.rounds == ROUNDS
    }

    /// The number of threads for the next step.
    fn threads(&self, on_battery: bool) -> usize {
        if !self.is_done() {
            return self.trials[self.current].threads;
        }
        let tolerance = if on_battery { BATTERY_TOLERANCE } else { TOLERANCE };
        let limit = min_seconds(&self.trials) * tolerance;
        let fewest = self.trials.iter().rev().find(|trial| trial.seconds <= limit);
        fewest.map_or(self.max, |trial| trial.threads)
    }

    /// Records a step with this number of threads.
    fn record(&mut self, threads: usize, seconds: f64) {
        self.steps += 1;
        if self.is_done() {
            self.record_chosen(threads, seconds)
        } else {
            self.record_trial(seconds)
        }
    }

    /// Records a step of the current trial, and moves on to the next trial after the last step.
    fn record_trial(&mut self, seconds: f64) {
        let trial = &mut self.trials[self.current];
        if self.steps > 1 {
            trial.seconds = trial.seconds.min(seconds);
        }
        if self.steps < TRIAL_STEPS {
            return;
        }
        self.steps = 0;
        let up_to_current = &self.trials[..=self.current];
        if up_to_current[self.current].seconds > min_seconds(up_to_current) * MAX_SLOWDOWN {
            self.trials.truncate(self.current + 1);
        }
        self.current += 1;
        if self.current == self.trials.len() {
            self.current = 0;
            self.rounds += 1;
        }
    }

    /// Records a step with the chosen number of threads. Restarts the trials if steps are slower
    /// than in the trial, or after many steps.
    fn record_chosen(&mut self, threads: usize, seconds: f64) {
        self.window_min = self.window_min.min(seconds);
        if !self.steps.is_multiple_of(WINDOW) {
            return;
        }
        let trial = self.trials.iter().find(|trial| trial.threads == threads);
        let is_slower = trial.is_some_and(|trial| self.window_min > trial.seconds * MAX_SLOWDOWN);
        self.window_min = f64::INFINITY;
        if is_slower || self.steps >= STEPS_UNTIL_RETRY {
            *self = Self::new(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of the time of a step in seconds: arithmetic, which threads share, reading of
    /// weights, and dispatch per thread.
    fn step(arithmetic: f64, reading: f64, dispatch: f64) -> impl Fn(usize) -> f64 {
        move |threads| (arithmetic / threads as f64).max(reading) + dispatch * threads as f64
    }

    /// Records steps with the time of this model. Returns the number of threads of each.
    fn run(tuning: &mut Tuning, steps: u32, on_battery: bool, seconds: impl Fn(usize) -> f64) -> Vec<usize> {
        let run_step = |_| {
            let threads = tuning.threads(on_battery);
            tuning.record(threads, seconds(threads));
            threads
        };
        (0..steps).map(run_step).collect()
    }

    /// The steps of a round of trials with these numbers of threads.
    fn round(threads: &[usize]) -> Vec<usize> {
        threads.iter().flat_map(|threads| [*threads; 3]).collect()
    }

    #[test]
    fn the_fewest_threads_that_are_as_fast_are_chosen() {
        let choose = |max, on_battery, seconds: &dyn Fn(usize) -> f64| {
            let mut tuning = Tuning::new(max);
            run(&mut tuning, 40, on_battery, seconds);
            tuning.threads(on_battery)
        };
        for (arithmetic, max, expected) in [(8.0, 16, 8), (100.0, 16, 16), (3.0, 16, 4), (3.5, 4, 4), (1.9, 4, 2)] {
            assert_eq!(
                choose(max, false, &step(arithmetic, 1.0, 0.0)),
                expected,
                "{arithmetic} of {max}"
            );
        }
        // More threads are even slower.
        assert_eq!(choose(16, false, &step(4.0, 1.0, 0.1)), 4);
        // 12 threads take a tenth longer than 16.
        let close = step(13.2, 1.0, 0.0);
        assert_eq!([choose(16, false, &close), choose(16, true, &close)], [16, 12]);
    }

    #[test]
    fn slow_steps_among_fast_ones_do_not_count() {
        let mut tuning = Tuning::new(16);
        for number in 0..24 {
            let threads = tuning.threads(false);
            // The first step of each trial, and all steps of one trial in the first round.
            let is_slow = number % 3 == 0 || (6..9).contains(&number);
            let delay = if is_slow { 0.2 } else { 0.0 };
            tuning.record(threads, delay + step(8.0, 1.0, 0.0)(threads));
        }
        assert_eq!((tuning.is_done(), tuning.threads(false)), (true, 8));
    }

    #[test]
    fn fewer_threads_than_a_slow_number_are_not_tried() {
        let actual = run(&mut Tuning::new(16), 20, false, step(16.0, 0.0, 0.0));
        let expected = [round(&[16, 12, 16, 12]), vec![16; 8]].concat();
        assert_eq!(actual, expected, "12 threads take a third longer");
    }

    #[test]
    fn all_are_tried_again_when_steps_take_longer_and_after_many() {
        let mut tuning = Tuning::new(8);
        let trials = round(&[8, 6, 4, 2, 8, 6, 4, 2]);
        let threads = run(&mut tuning, 24 + STEPS_UNTIL_RETRY, false, step(2.0, 1.0, 0.0));
        assert_eq!(threads[..24], trials);
        assert!(threads[24..].iter().all(|threads| *threads == 2));
        assert_eq!(run(&mut tuning, 24, false, step(2.0, 1.0, 0.0)), trials);
        // The context has grown, and attention needs more arithmetic.
        let threads = run(&mut tuning, WINDOW + 24, false, step(6.0, 1.1, 0.0));
        assert!(threads[..WINDOW as usize].iter().all(|threads| *threads == 2));
        assert_eq!(threads[WINDOW as usize..][..6], round(&[8, 6]));
        assert_eq!(tuning.threads(false), 6);
    }

    #[test]
    fn only_many_consecutive_steps_are_timed() {
        let mut decode = DecodeSteps::default();
        let mut number = 0;
        // Begins a step after `gap` steps of other kinds.
        let mut begin = |decode: &mut DecodeSteps, gap: u64, max| {
            number += 1 + gap;
            decode.begin(StepNumber(number), max, false)
        };
        // Three draft steps, then a verification.
        for _ in 0..40 {
            assert_eq!([1, 0, 0].map(|gap| begin(&mut decode, gap, 8)), [None; 3]);
        }
        let plain: Vec<_> = (0..20).map(|_| begin(&mut decode, 0, 8)).collect();
        assert_eq!(plain[..13], [None; 13]);
        assert_eq!(plain[13..], [Some(8); 7]);
        for _ in 0..4 {
            decode.tuning.record(8, 1.0);
        }
        assert_eq!(begin(&mut decode, 0, 8), Some(6));
        // The trials restart after a step of another model, and with another maximum.
        assert_eq!(begin(&mut decode, 1, 8), None);
        assert_eq!(decode.tuning.threads(false), 8);
        assert_eq!(begin(&mut decode, 0, 6), None);
        assert_eq!(decode.tuning.max, 6);
    }
}
