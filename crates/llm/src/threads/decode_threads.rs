//! The number of threads for decode, found by timing the steps themselves.
//!
//! Decode reads all weights for each token, and a few threads often saturate the memory: more of
//! them only wait for each other, and consume energy. How many do depends on the machine, the model
//! and what else runs, so nothing is measured ahead: the first steps of a model try a few numbers,
//! and so does every 4,096th. Results do not depend on the number of threads.

use super::{MOST, ON_BATTERY};
use hearth_kernels::team;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Steps for each number of threads that is tried. The fastest counts: the first one also wakes
/// threads, and others may be delayed by other programs.
const STEPS: u32 = 4;
/// Steps with the chosen number before all are tried again: the context has grown meanwhile.
const STEPS_UNTIL_RETRY: u32 = 4096;
/// No fewer threads are tried after a number that takes this many times as long as the fastest.
const HOPELESS: f64 = 1.25;
/// How much longer a step may take if that needs fewer threads: about what differs by chance.
const AS_FAST: f64 = 1.02;
/// The same on battery.
const ON_BATTERY_AS_FAST: f64 = 1.15;
/// With fewer threads, all are always used: two or three cores rarely saturate the memory.
const MIN_TO_TRY: usize = 4;

/// The number of threads for decode steps of one model.
#[derive(Debug, Default)]
pub(crate) struct DecodeThreads(Mutex<Tuning>);

/// A step that is being timed. Dropping it restores the team's number of threads.
pub(crate) struct TimedStep<'a> {
    of: &'a DecodeThreads,
    most: usize,
    threads: usize,
    began: Instant,
}

impl DecodeThreads {
    /// Begins a step of one token: sets the team's number of threads. `None` means that it is
    /// fixed.
    pub fn begin(&self) -> Option<TimedStep<'_>> {
        let most = MOST.load(Ordering::Relaxed);
        if most < MIN_TO_TRY {
            return None;
        }
        let threads = self.tuning().next(most, ON_BATTERY.load(Ordering::Relaxed));
        team::set_threads(threads);
        Some(TimedStep {
            of: self,
            most,
            threads,
            began: Instant::now(),
        })
    }

    fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimedStep<'_> {
    /// Records the time of the step, which is complete.
    pub fn finish(self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.of.tuning().record(self.most, self.threads, seconds);
    }
}

impl Drop for TimedStep<'_> {
    fn drop(&mut self) {
        team::set_threads(self.most);
    }
}

/// A number of threads, and the seconds of its fastest step: infinite if it was not tried.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trial {
    threads: usize,
    seconds: f64,
}

/// What was tried.
#[derive(Debug, Default)]
struct Tuning {
    /// The most threads, for which `trials` are.
    most: usize,
    /// In descending order.
    trials: Vec<Trial>,
    /// The trial of the next step; behind the last one, all are done.
    current: usize,
    /// Steps of the current trial, or since the last one.
    steps: u32,
}

impl Tuning {
    fn begin(most: usize) -> Self {
        let mut trials: Vec<Trial> = Vec::new();
        for threads in [most, most * 3 / 4, most / 2, most / 4] {
            if threads > 1 && trials.last().is_none_or(|last| last.threads > threads) {
                let seconds = f64::INFINITY;
                trials.push(Trial { threads, seconds });
            }
        }
        Self {
            most,
            trials,
            ..Self::default()
        }
    }

    /// The number of threads for the next step.
    fn next(&mut self, most: usize, on_battery: bool) -> usize {
        if self.most != most {
            *self = Self::begin(most);
        }
        match self.trials.get(self.current) {
            Some(trial) => trial.threads,
            None => self.chosen(if on_battery { ON_BATTERY_AS_FAST } else { AS_FAST }),
        }
    }

    /// The fewest threads whose step takes at most `as_fast` times as long as the fastest.
    fn chosen(&self, as_fast: f64) -> usize {
        let limit = self.fastest() * as_fast;
        let fewest = self.trials.iter().rev().find(|trial| trial.seconds <= limit);
        fewest.map_or(self.most, |trial| trial.threads)
    }

    fn fastest(&self) -> f64 {
        let seconds = self.trials.iter().map(|trial| trial.seconds);
        seconds.fold(f64::INFINITY, f64::min)
    }

    /// Records a step; one of another trial, or for another number of most threads, is ignored.
    fn record(&mut self, most: usize, threads: usize, seconds: f64) {
        if self.most != most {
            return;
        }
        self.steps += 1;
        let fastest = self.fastest();
        match self.trials.get_mut(self.current) {
            Some(trial) if trial.threads == threads => {
                trial.seconds = trial.seconds.min(seconds);
                if self.steps >= STEPS {
                    let is_hopeless = trial.seconds > fastest * HOPELESS;
                    self.current = if is_hopeless {
                        self.trials.len()
                    } else {
                        self.current + 1
                    };
                    self.steps = 0;
                }
            }
            Some(_) => self.steps -= 1,
            None if self.steps >= STEPS_UNTIL_RETRY => *self = Self::begin(most),
            None => {}
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

    /// Runs steps, and returns the number of threads of each.
    fn run(
        tuning: &mut Tuning,
        most: usize,
        steps: u32,
        on_battery: bool,
        seconds: impl Fn(usize) -> f64,
    ) -> Vec<usize> {
        let step = |_| {
            let threads = tuning.next(most, on_battery);
            tuning.record(most, threads, seconds(threads));
            threads
        };
        (0..steps).map(step).collect()
    }

    #[test]
    fn the_fewest_threads_that_are_as_fast_are_chosen() {
        let chosen = |most, on_battery, seconds: &dyn Fn(usize) -> f64| {
            run(&mut Tuning::default(), most, 40, on_battery, seconds)[39]
        };
        for (arithmetic, most, expected) in [(8.0, 16, 8), (100.0, 16, 16), (3.0, 16, 4), (3.5, 4, 4), (1.9, 4, 2)] {
            assert_eq!(
                chosen(most, false, &step(arithmetic, 1.0, 0.0)),
                expected,
                "{arithmetic} of {most}"
            );
        }
        // More threads are even slower.
        assert_eq!(chosen(16, false, &step(4.0, 1.0, 0.1)), 4);
        // 12 threads are 10 % slower than 16.
        let nearly = step(13.2, 1.0, 0.0);
        assert_eq!([chosen(16, false, &nearly), chosen(16, true, &nearly)], [16, 12]);
    }

    #[test]
    fn a_slow_step_among_fast_ones_does_not_count() {
        let mut tuning = Tuning::default();
        for number in 0..16 {
            let threads = tuning.next(16, false);
            let delayed = if number % 4 == 0 { 1.0 } else { 0.0 };
            tuning.record(16, threads, delayed + step(8.0, 1.0, 0.0)(threads));
        }
        assert_eq!(tuning.next(16, false), 8);
    }

    #[test]
    fn hopeless_numbers_are_not_tried() {
        let tried = run(&mut Tuning::default(), 16, 20, false, step(16.0, 0.0, 0.0));
        let expected = [vec![16; 4], vec![12; 4], vec![16; 12]].concat();
        assert_eq!(tried, expected, "12 take a third longer");
    }

    #[test]
    fn all_are_tried_again_later_and_for_another_most() {
        let mut tuning = Tuning::default();
        let first = run(&mut tuning, 8, 16 + STEPS_UNTIL_RETRY, false, step(2.0, 1.0, 0.0));
        assert_eq!(first[..16], [vec![8; 4], vec![6; 4], vec![4; 4], vec![2; 4]].concat());
        assert!(first[16..].iter().all(|threads| *threads == 2));
        assert_eq!(tuning.next(8, false), 8);
        run(&mut tuning, 8, 20, false, step(2.0, 1.0, 0.0));
        assert_eq!(tuning.next(6, false), 6);
        // A step that began before is not counted.
        tuning.record(8, 2, 0.0);
        tuning.record(6, 2, 0.0);
        assert_eq!(tuning.fastest(), f64::INFINITY);
    }
}
