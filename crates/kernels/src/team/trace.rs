//! Traces of runs, and a simulation of their schedule with any number of threads, to predict the
//! speed on machines with more cores.
//!
//! The caller alone executes a traced run, and runs nested in it. The run is split as for the
//! number of threads of the team, and the duration of each work chunk is recorded. The simulation
//! models neither shared memory bandwidth nor clock rates that depend on the number of busy cores.

use super::{IN_WORK_CHUNK, Work};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

/// A run of the team.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracedRun {
    /// Seconds since the end of the previous run: work of one thread.
    pub before: f64,
    /// Seconds of each work chunk.
    pub chunks: Vec<f64>,
}

/// The runs of some work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// In order.
    pub runs: Vec<TracedRun>,
    /// Seconds after the last run.
    pub after: f64,
}

/// The costs of scheduling, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// From the start of a run to the first chunk of a worker; the same again from the last chunk
    /// to the caller's return.
    pub dispatch: f64,
    /// Added to a chunk that is stolen.
    pub steal: f64,
}

/// A trace that is being recorded.
struct Recording {
    runs: Vec<TracedRun>,
    end_of_last_run: Instant,
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            end_of_last_run: Instant::now(),
        }
    }
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Traces the runs that `body` starts on this thread.
pub fn trace(body: impl FnOnce()) -> Trace {
    /// Ends the recording, even if the body panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            RECORDING.set(None);
        }
    }
    let _end = End;
    RECORDING.set(Some(Recording::default()));
    body();
    let recorded = RECORDING.take().unwrap_or_default();
    Trace {
        runs: recorded.runs,
        after: recorded.end_of_last_run.elapsed().as_secs_f64(),
    }
}

/// Executes and records a run if this thread is traced; returns whether it is.
pub(super) fn run(chunks: usize, work: &Work<'_>) -> bool {
    // Taken, not borrowed: the work may start nested runs.
    let Some(mut recording) = RECORDING.take() else {
        return false;
    };
    let mut run = TracedRun {
        before: recording.end_of_last_run.elapsed().as_secs_f64(),
        chunks: Vec::with_capacity(chunks),
    };
    let is_nested = IN_WORK_CHUNK.replace(true);
    for chunk in 0..chunks {
        let start = Instant::now();
        work(chunk);
        run.chunks.push(start.elapsed().as_secs_f64());
    }
    IN_WORK_CHUNK.set(is_nested);
    recording.runs.push(run);
    recording.end_of_last_run = Instant::now();
    RECORDING.set(Some(recording));
    true
}

impl Trace {
    /// Seconds if one thread executes everything.
    pub fn total(&self) -> f64 {
        self.serial() + self.runs.iter().map(TracedRun::work).sum::<f64>()
    }

    /// Seconds outside of runs, and in runs of one chunk.
    pub fn serial(&self) -> f64 {
        let single_chunk = self.runs.iter().filter(|run| run.chunks.len() < 2).map(TracedRun::work);
        self.after + self.runs.iter().map(|run| run.before).sum::<f64>() + single_chunk.sum::<f64>()
    }

    /// Simulated seconds with `threads` threads.
    pub fn simulated(&self, threads: usize, costs: Costs) -> f64 {
        let run = |run: &TracedRun| run.before + run.simulated(threads, costs);
        self.after + self.runs.iter().map(run).sum::<f64>()
    }
}

impl TracedRun {
    /// Seconds of all chunks.
    fn work(&self) -> f64 {
        self.chunks.iter().sum()
    }

    /// Simulated seconds with `threads` threads, which take chunks as a team's threads do: each
    /// from the start of its range, then from the end of another thread's.
    fn simulated(&self, threads: usize, costs: Costs) -> f64 {
        let chunks = self.chunks.len();
        if chunks < 2 || threads < 2 {
            return self.work();
        }
        let mut ranges: Vec<VecDeque<f64>> = (0..threads)
            .map(|thread| {
                let range = thread * chunks / threads..(thread + 1) * chunks / threads;
                self.chunks[range].iter().copied().collect()
            })
            .collect();
        // Times at which threads look for their next chunk, in nanoseconds: integers are `Ord`.
        let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
        let ready = |thread: usize| Reverse((if thread == 0 { 0 } else { nanoseconds(costs.dispatch) }, thread));
        let mut idle: BinaryHeap<_> = (0..threads).map(ready).collect();
        let mut end = 0;
        while let Some(Reverse((now, thread))) = idle.pop() {
            let own = ranges[thread].pop_front();
            let stolen = |ranges: &mut Vec<VecDeque<f64>>| {
                let mut others = (1..threads).map(|offset| (thread + offset) % threads);
                others
                    .find_map(|other| ranges[other].pop_back())
                    .map(|chunk| chunk + costs.steal)
            };
            if let Some(chunk) = own.or_else(|| stolen(&mut ranges)) {
                let chunk_end = now + nanoseconds(chunk);
                end = end.max(chunk_end);
                idle.push(Reverse((chunk_end, thread)));
            }
        }
        end as f64 * 1e-9 + costs.dispatch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::Team;
    use std::thread;

    const FREE: Costs = Costs {
        dispatch: 0.0,
        steal: 0.0,
    };

    fn trace_of(chunks: &[f64]) -> Trace {
        let run = TracedRun {
            before: 1.0,
            chunks: chunks.to_vec(),
        };
        Trace {
            runs: vec![run],
            after: 0.5,
        }
    }

    fn assert_seconds(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected}");
    }

    #[test]
    fn equal_chunks_are_shared_equally() {
        let trace = trace_of(&[0.25; 16]);
        for (threads, expected) in [(1, 4.0), (2, 2.0), (4, 1.0), (16, 0.25), (64, 0.25)] {
            assert_seconds(trace.simulated(threads, FREE), 1.5 + expected);
        }
        assert_seconds(trace.total(), 5.5);
        assert_seconds(trace.serial(), 1.5);
    }

    #[test]
    fn idle_threads_steal_from_the_end() {
        // The second thread finishes its three empty chunks and steals the last of the first's.
        let trace = trace_of(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_seconds(trace.simulated(2, FREE), 1.5 + 2.0);
        let costs = Costs {
            dispatch: 0.125,
            steal: 0.25,
        };
        // It begins after the dispatch, and the stolen chunk ends before the first thread's two
        // chunks.
        assert_seconds(trace.simulated(2, costs), 1.5 + 2.0 + 0.125);
    }

    #[test]
    fn runs_of_one_chunk_are_serial() {
        let trace = trace_of(&[2.0]);
        assert_seconds(trace.simulated(8, FREE), 3.5);
        assert_seconds(trace.serial(), 3.5);
    }

    #[test]
    fn runs_are_recorded_in_order_and_only_while_traced() {
        let team = Team::new(2);
        team.run(3, &|_| ());
        let trace = trace(|| {
            team.run(5, &|_| ());
            let caller = thread::current().id();
            team.run(1, &|_| team.run(4, &|_| assert_eq!(thread::current().id(), caller)));
        });
        team.run(3, &|_| ());
        let chunks: Vec<usize> = trace.runs.iter().map(|run| run.chunks.len()).collect();
        assert_eq!(chunks, [5, 1]);
        assert!(trace.total() > 0.0);
    }
}
