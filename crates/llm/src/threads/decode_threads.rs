//! The number of threads for decode, found by timing the steps themselves.
//!
//! Decode reads all weights for each token, and a few threads often saturate the memory: more of
//! them only wait for each other, and consume energy. How many do depends on the machine, the model
//! and what else runs, so nothing is measured ahead: steps of an answer try a few numbers, and do
//! so again when a step takes longer than it did, or after 4,096 steps. Results do not depend on
//! the number of threads.

use super::{MAX_THREADS, ON_BATTERY};
use hearth_kernels::team;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Consecutive decode steps of a model before its numbers of threads are tried or used. Steps of
/// drafts are never that many: there, threads would be put to sleep and woken for each
/// verification.
const STEPS_BEFORE: u64 = 16;
/// Times that each number is tried: what else the machine does changes meanwhile.
const ROUNDS: u32 = 2;
/// Steps of a trial. The first one, which may wake threads, is not counted, and the fastest counts.
const STEPS_OF_TRIAL: u32 = 3;
/// No fewer threads are tried after a number that takes this many times as long as more threads.
const MAX_SLOWDOWN: f64 = 1.25;
/// Factor by which a step may be slower if it needs fewer threads: measurement noise.
const TOLERANCE: f64 = 1.02;
/// The same on battery.
const BATTERY_TOLERANCE: f64 = 1.15;
/// With fewer threads, all are always used: two or three cores rarely saturate the memory.
const MIN_THREADS: usize = 4;
/// Steps with the chosen number before all are tried again.
const STEPS_UNTIL_RETRY: u32 = 4096;
/// Steps of which the fastest is compared with the fastest step of the trials.
const WINDOW: u32 = 64;

/// The number of a step of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StepNumber(u64);

impl StepNumber {
    /// The number of a new step.
    pub fn next() -> Self {
        static STEPS: AtomicU64 = AtomicU64::new(1);
        Self(STEPS.fetch_add(1, Ordering::Relaxed))
    }
}

/// The number of threads for decode steps of one model.
#[derive(Debug, Default)]
pub(crate) struct DecodeThreads(Mutex<Decode>);

/// A step that is being timed. Dropping it restores the team's number of threads.
pub(crate) struct TimedStep<'a> {
    owner: &'a DecodeThreads,
    max: usize,
    threads: usize,
    began: Instant,
}

impl DecodeThreads {
    /// Begins a decode step of one sequence: sets the team's number of threads. `None` means that
    /// all are used.
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
            began: Instant::now(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Decode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimedStep<'_> {
    /// Records the time of the step, which is complete.
    pub fn finish(self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.owner.lock().tuning.record(self.threads, seconds);
    }
}

impl Drop for TimedStep<'_> {
    fn drop(&mut self) {
        // Unless it was set meanwhile.
        if MAX_THREADS.load(Ordering::Relaxed) == self.max {
            team::set_threads(self.max);
        }
    }
}

/// Consecutive decode steps, and what was tried.
#[derive(Debug, Default)]
struct Decode {
    last: StepNumber,
    consecutive: u64,
    tuning: Tuning,
}

impl Decode {
    /// The number of threads of a step. `None` means all: too few steps came before it.
    fn begin(&mut self, step: StepNumber, max: usize, on_battery: bool) -> Option<usize> {
        let follows = step.0 == self.last.0 + 1;
        self.consecutive = if follows { self.consecutive + 1 } else { 0 };
        self.last = step;
        // Steps of another context or machine state are not comparable.
        if self.tuning.max != max || (!follows && !self.tuning.is_done()) {
            self.tuning = Tuning::new(max);
        }
        (self.consecutive >= STEPS_BEFORE).then(|| self.tuning.threads(on_battery))
    }
}

/// A number of threads, and the seconds of its fastest step: infinite if it was not tried.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trial {
    threads: usize,
    seconds: f64,
}

fn fastest(trials: &[Trial]) -> f64 {
    let seconds = trials.iter().map(|trial| trial.seconds);
    seconds.fold(f64::INFINITY, f64::min)
}

/// Numbers of threads and their times.
#[derive(Debug, Default)]
struct Tuning {
    max: usize,
    /// In descending order, from `max` on.
    trials: Vec<Trial>,
    /// Rounds that are complete.
    rounds: u32,
    /// The trial of the next step, until all rounds are complete.
    current: usize,
    /// Steps of the current trial, or since the last one.
    steps: u32,
    /// The fastest step of the current window since then.
    recent: f64,
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
            recent: f64::INFINITY,
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
        let limit = fastest(&self.trials) * tolerance;
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

    fn record_trial(&mut self, seconds: f64) {
        let trial = &mut self.trials[self.current];
        if self.steps > 1 {
            trial.seconds = trial.seconds.min(seconds);
        }
        if self.steps < STEPS_OF_TRIAL {
            return;
        }
        self.steps = 0;
        let up_to_here = &self.trials[..=self.current];
        if up_to_here[self.current].seconds > fastest(up_to_here) * MAX_SLOWDOWN {
            self.trials.truncate(self.current + 1);
        }
        self.current += 1;
        if self.current == self.trials.len() {
            self.current = 0;
            self.rounds += 1;
        }
    }

    /// Restarts the trials if steps take longer than in the trial, or after many steps.
    fn record_chosen(&mut self, threads: usize, seconds: f64) {
        self.recent = self.recent.min(seconds);
        if !self.steps.is_multiple_of(WINDOW) {
            return;
        }
        let trial = self.trials.iter().find(|trial| trial.threads == threads);
        let is_slower = trial.is_some_and(|trial| self.recent > trial.seconds * MAX_SLOWDOWN);
        self.recent = f64::INFINITY;
        if is_slower || self.steps >= STEPS_UNTIL_RETRY {
            *self = Self::new(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of a step: of arithmetic, of reading, and for each thread that takes part.
    fn step(arithmetic: f64, reading: f64, dispatch: f64) -> impl Fn(usize) -> f64 {
        move |threads| (arithmetic / threads as f64).max(reading) + dispatch * threads as f64
    }

    /// Times steps, and returns the number of threads of each.
    fn run(tuning: &mut Tuning, steps: u32, on_battery: bool, seconds: impl Fn(usize) -> f64) -> Vec<usize> {
        let step = |_| {
            let threads = tuning.threads(on_battery);
            tuning.record(threads, seconds(threads));
            threads
        };
        (0..steps).map(step).collect()
    }

    /// A round of trials with these numbers.
    fn round(threads: &[usize]) -> Vec<usize> {
        threads.iter().flat_map(|threads| [*threads; 3]).collect()
    }

    #[test]
    fn the_fewest_threads_that_are_as_fast_are_chosen() {
        let chosen = |max, on_battery, seconds: &dyn Fn(usize) -> f64| {
            let mut tuning = Tuning::new(max);
            run(&mut tuning, 40, on_battery, seconds);
            tuning.threads(on_battery)
        };
        for (arithmetic, max, expected) in [(8.0, 16, 8), (100.0, 16, 16), (3.0, 16, 4), (3.5, 4, 4), (1.9, 4, 2)] {
            assert_eq!(
                chosen(max, false, &step(arithmetic, 1.0, 0.0)),
                expected,
                "{arithmetic} of {max}"
            );
        }
        // More threads are even slower.
        assert_eq!(chosen(16, false, &step(4.0, 1.0, 0.1)), 4);
        // 12 threads take a tenth longer than 16.
        let nearly = step(13.2, 1.0, 0.0);
        assert_eq!([chosen(16, false, &nearly), chosen(16, true, &nearly)], [16, 12]);
    }

    #[test]
    fn slow_steps_among_fast_ones_do_not_count() {
        let mut tuning = Tuning::new(16);
        for number in 0..24 {
            let threads = tuning.threads(false);
            // The first of each trial, and all of a number's first round.
            let is_slow = number % 3 == 0 || (6..9).contains(&number);
            let delay = if is_slow { 0.2 } else { 0.0 };
            tuning.record(threads, delay + step(8.0, 1.0, 0.0)(threads));
        }
        assert_eq!((tuning.is_done(), tuning.threads(false)), (true, 8));
    }

    #[test]
    fn fewer_threads_than_a_slow_number_are_not_tried() {
        let tried = run(&mut Tuning::new(16), 20, false, step(16.0, 0.0, 0.0));
        let expected = [round(&[16, 12, 16, 12]), vec![16; 8]].concat();
        assert_eq!(tried, expected, "12 take a third longer");
    }

    #[test]
    fn all_are_tried_again_when_steps_take_longer_and_after_many() {
        let mut tuning = Tuning::new(8);
        let all = round(&[8, 6, 4, 2, 8, 6, 4, 2]);
        let first = run(&mut tuning, 24 + STEPS_UNTIL_RETRY, false, step(2.0, 1.0, 0.0));
        assert_eq!(first[..24], all);
        assert!(first[24..].iter().all(|threads| *threads == 2));
        assert_eq!(run(&mut tuning, 24, false, step(2.0, 1.0, 0.0)), all);
        // The context has grown, and attention needs more arithmetic.
        let then = run(&mut tuning, WINDOW + 24, false, step(6.0, 1.1, 0.0));
        assert!(then[..WINDOW as usize].iter().all(|threads| *threads == 2));
        assert_eq!(then[WINDOW as usize..][..6], round(&[8, 6]));
        assert_eq!(tuning.threads(false), 6);
    }

    #[test]
    fn only_many_consecutive_steps_are_timed() {
        let mut decode = Decode::default();
        let mut number = 0;
        let mut begin = |decode: &mut Decode, gap: u64, max| {
            number += 1 + gap;
            decode.begin(StepNumber(number), max, false)
        };
        // Three draft steps, and a verification, which is a step of another kind.
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
        // An answer of another sequence, and other threads: the trials begin again.
        assert_eq!(begin(&mut decode, 1, 8), None);
        assert_eq!(decode.tuning.threads(false), 8);
        assert_eq!(begin(&mut decode, 0, 6), None);
        assert_eq!(decode.tuning.max, 6);
    }
}
