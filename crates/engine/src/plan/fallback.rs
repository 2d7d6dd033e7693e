//! Loading by a plan, with fallback to fewer layers on GPUs.

use super::Planned;
use crate::hardware::records;
use crate::problem::{internal, panic_text};
use hearth_llm::device;
use hearth_protocol::{Problem, ProblemCode};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `attempt` with a plan. If a GPU fails (out of memory, or a driver crash), `attempt` is
/// retried with three quarters of its layers, and then on the CPU alone. Each fallback adds a
/// notice. `replan` plans for a number of layers on GPUs.
///
/// # Errors
/// An error of `attempt` that is not a GPU failure, or any error on the CPU alone.
pub fn load_with_fallback<T>(
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
        // The failed GPU is reopened.
        next.placement.gpus().for_each(device::close);
        note(&next, records::Store::note_refused);
        let fewer = if layers == first { layers * 3 / 4 } else { 0 };
        tracing::warn!("{layers} layers on the GPU failed: {problem}");
        notices.push(match fewer {
            0 => {
                format!("The model runs on the CPU alone, because the GPU failed with {layers} layers: {problem}")
            }
            _ => format!("Retrying with {fewer} layers on the GPU, because it failed with {layers}: {problem}"),
        });
        next = replan(fewer)?;
    }
}

/// Records the requested bytes and the free bytes of each GPU with layers.
fn note(planned: &Planned, how: fn(&mut records::Store, &str, u64, u64)) {
    let devices = planned.plan.devices.iter().skip(1);
    for device in devices.filter(|device| !device.layers.is_empty()) {
        if let Some(free) = device.free {
            how(&mut records::store(), &device.identity, device.needed(), free);
        }
    }
}

/// Calls `run`. With a GPU involved, a panic counts as the GPU's failure.
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
    use super::super::tests::{device, fixture, options};
    use super::*;
    use crate::plan::compute_plan;
    use crate::problem::problem;
    use hearth_protocol::GpuLayers;

    /// The attempts, the number of notices and the error, if every attempt with more layers than
    /// `most` fails.
    fn tried(most: usize, fail: fn() -> Problem) -> (Vec<usize>, usize, Option<Problem>) {
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", 1 << 30), device("gpu9", "discrete", 1 << 30)];
        let plan = |layers: usize| compute_plan(&bytes, &config, &options(GpuLayers::Count(layers as u32)), &devices);
        let (mut seen, mut notices) = (Vec::new(), Vec::new());
        let done = load_with_fallback(plan(config.layers()).unwrap(), &mut notices, plan, |planned| {
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
        // A refused size is not requested again.
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", 1 << 30), device("gpu9", "discrete", 1 << 30)];
        let plan = compute_plan(&bytes, &config, &options(GpuLayers::Auto), &devices)
            .unwrap()
            .plan;
        assert!(plan.fits && (plan.gpu_layers as usize) < fewer, "{plan:?}");
        let (seen, notices, error) = tried(0, || problem(ProblemCode::FileInvalid, "corrupt"));
        assert_eq!(
            (seen, notices, error.unwrap().code),
            (vec![total], 0, ProblemCode::FileInvalid)
        );
    }
}
