//! Carrying a plan out, and what is done where a GPU refuses.

use super::Planned;
use crate::hardware::records;
use crate::problem::{internal, panic_text};
use hearth_llm::device;
use hearth_protocol::{Problem, ProblemCode};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `attempt` with a plan. Where a GPU fails in it (its memory was refused, its driver crashed), once more with a quarter of its
/// layers fewer, and then with the processor alone; each is said in `notices`. `replan` plans for a number of layers on GPUs.
///
/// # Errors
/// What `attempt` says that is not a GPU's fault, or what it says of the processor alone.
pub fn carry_out<T>(
    planned: Planned,
    notices: &mut Vec<String>,
    replan: impl Fn(usize) -> Result<Planned, Problem>,
    mut attempt: impl FnMut(&Planned) -> Result<T, Problem>,
) -> Result<(T, Planned), Problem> {
    let first = planned.placement.gpu_layers();
    let mut next = planned;
    loop {
        let layers = next.placement.gpu_layers();
        let problem = match guarded(layers > 0, || attempt(&next)) {
            Ok(done) => {
                note(&next, records::Store::note_had);
                return Ok((done, next));
            }
            Err(problem) if layers == 0 || problem.code != ProblemCode::NoDevice => return Err(problem),
            Err(problem) => problem,
        };
        // What has failed is not asked again: the GPU is opened anew.
        next.placement.gpus().for_each(device::forget);
        note(&next, records::Store::note_refused);
        let fewer = if layers == first { layers * 3 / 4 } else { 0 };
        tracing::warn!("{layers} layers on the GPU failed: {problem}");
        notices.push(match fewer {
            0 => {
                format!("The model runs on the processor alone, because the GPU failed with {layers} layers: {problem}")
            }
            _ => format!("{fewer} layers are tried on the GPU, because it failed with {layers}: {problem}"),
        });
        next = replan(fewer)?;
    }
}

/// Notes for each GPU that has layers what it was asked to hold, and of how much that was free.
fn note(planned: &Planned, how: fn(&mut records::Store, &str, u64, u64)) {
    let devices = planned.plan.devices.iter().skip(1);
    for device in devices.filter(|device| !device.layers.is_empty()) {
        if let Some(free) = device.free {
            let asked = device.weights + device.kv + device.compute;
            how(&mut records::store(), &device.identity, asked, free);
        }
    }
}

/// Runs something that a GPU takes part in; there a panic is the GPU's failure.
fn guarded<T>(on_gpu: bool, run: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    if !on_gpu {
        return run();
    }
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        Err(Problem {
            code: ProblemCode::NoDevice,
            ..internal(panic_text(&*payload))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, device, fixture};
    use super::*;
    use crate::plan::planned;
    use crate::problem::problem;
    use hearth_protocol::GpuLayers;

    /// What is tried, and what is said, where every attempt with more layers than `most` fails in this way.
    fn tried(most: usize, fail: fn() -> Problem) -> (Vec<usize>, usize, Option<Problem>) {
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", 1 << 30), device("gpu9", "discrete", 1 << 30)];
        let plan = |layers: usize| planned(&bytes, &config, &asked(GpuLayers::Count(layers as u32)), &devices);
        let (mut seen, mut notices) = (Vec::new(), Vec::new());
        let done = carry_out(plan(config.layers()).unwrap(), &mut notices, plan, |planned| {
            let layers = planned.placement.gpu_layers();
            seen.push(layers);
            if layers > most { Err(fail()) } else { Ok(layers) }
        });
        assert!(
            done.as_ref()
                .is_ok_and(|(layers, planned)| *layers == planned.placement.gpu_layers())
                || done.is_err()
        );
        (seen, notices.len(), done.err())
    }

    #[test]
    fn fewer_layers_are_tried_once_and_then_none() {
        let refused = || problem(ProblemCode::NoDevice, "no memory");
        let total = fixture("llama.gguf").1.layers();
        let fewer = total * 3 / 4;
        assert_eq!(tried(total, refused), (vec![total], 0, None));
        assert_eq!(tried(fewer, refused), (vec![total, fewer], 1, None));
        assert_eq!(tried(0, refused), (vec![total, fewer, 0], 2, None));
        assert_eq!(tried(0, || panic!("lost")), (vec![total, fewer, 0], 2, None));
        // What was refused is not asked for again.
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", 1 << 30), device("gpu9", "discrete", 1 << 30)];
        let plan = planned(&bytes, &config, &asked(GpuLayers::Auto), &devices)
            .unwrap()
            .plan;
        assert!(plan.fits && (plan.gpu_layers as usize) < fewer, "{plan:?}");
        let (seen, notices, error) = tried(0, || problem(ProblemCode::FileInvalid, "damaged"));
        assert_eq!(
            (seen, notices, error.unwrap().code),
            (vec![total], 0, ProblemCode::FileInvalid)
        );
    }
}
