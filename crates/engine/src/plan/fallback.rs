//! Loads a model by a plan, with fallback to fewer layers on GPUs.

use super::ModelPlan;
use crate::hardware::records;
use crate::numbers::saturating_u32;
use crate::problem::{internal, panic_text};
use hearth_llm::device;
use hearth_protocol::{Notice, Problem, ProblemCode};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `attempt` with a plan. If a GPU fails (out of memory, or a panic in the driver's API),
/// retries with three quarters of the layers on GPUs, and then on the CPU alone. Each fallback adds
/// a notice. `replan` returns a plan with the given number of layers on GPUs.
///
/// # Errors
/// An error of `attempt` that is not a GPU failure, or any error on the CPU alone.
pub fn load_with_fallback<T>(
    first_plan: ModelPlan,
    notices: &mut Vec<Notice>,
    replan: impl Fn(usize) -> Result<ModelPlan, Problem>,
    mut attempt: impl FnMut(&ModelPlan) -> Result<T, Problem>,
) -> Result<(T, ModelPlan), Problem> {
    let first_layers = first_plan.placement.gpu_layers();
    let mut model_plan = first_plan;
    loop {
        let layers = model_plan.placement.gpu_layers();
        let problem = match catch_gpu_panic(layers > 0, || attempt(&model_plan)) {
            Ok(value) => {
                record(&model_plan, records::Store::record_allocation);
                return Ok((value, model_plan));
            }
            Err(problem) if layers == 0 || problem.code != ProblemCode::NoDevice => return Err(problem),
            Err(problem) => problem,
        };
        // The next attempt reopens the GPUs.
        model_plan.placement.gpus().for_each(device::close);
        record(&model_plan, records::Store::record_refusal);
        let fewer = if layers == first_layers { layers * 3 / 4 } else { 0 };
        tracing::warn!("{layers} layers on the GPU failed: {problem}");
        let (failed, cause) = (saturating_u32(layers), Box::new(problem));
        notices.push(match fewer {
            0 => Notice::CpuAlone { failed, cause },
            _ => Notice::FewerGpuLayers {
                layers: saturating_u32(fewer),
                failed,
                cause,
            },
        });
        model_plan = replan(fewer)?;
    }
}

/// Records the requested bytes and the free bytes of each GPU with layers.
fn record(model_plan: &ModelPlan, record: fn(&mut records::Store, &str, u64, u64)) {
    let devices = model_plan.plan.devices.iter().skip(1);
    for device in devices.filter(|device| !device.layers.is_empty()) {
        if let Some(free) = device.free {
            record(&mut records::store(), &device.identity, device.needed(), free);
        }
    }
}

/// Calls `run`. If it uses a GPU, a panic counts as a failure of the GPU.
fn catch_gpu_panic<T>(uses_gpu: bool, run: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    if !uses_gpu {
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
    use hearth_protocol::GpuLayers;

    /// The outcome of a load.
    #[derive(Debug, PartialEq)]
    struct Outcome {
        /// Layers on the GPU of each attempt.
        attempts: Vec<usize>,
        notices: usize,
        error: Option<ProblemCode>,
    }

    /// Loads while every attempt with more than `max_layers` layers on the GPU fails.
    fn load(max_layers: usize, fail: fn() -> Problem) -> Outcome {
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", 1 << 30), device("gpu9", "discrete", 1 << 30)];
        let plan = |layers: usize| compute_plan(&bytes, &config, &options(GpuLayers::Count(layers as u32)), &devices);
        let (mut attempts, mut notices) = (Vec::new(), Vec::new());
        let result = load_with_fallback(plan(config.layers()).unwrap(), &mut notices, plan, |model_plan| {
            let layers = model_plan.placement.gpu_layers();
            attempts.push(layers);
            if layers > max_layers { Err(fail()) } else { Ok(layers) }
        });
        if let Ok((layers, model_plan)) = &result {
            assert_eq!(*layers, model_plan.placement.gpu_layers());
        }
        Outcome {
            attempts,
            notices: notices.len(),
            error: result.err().map(|problem| problem.code),
        }
    }

    #[test]
    fn fewer_layers_are_tried_once_and_then_none() {
        let refused = || Problem::detail(ProblemCode::NoDevice, "no memory");
        let total = fixture("llama.gguf").1.layers();
        let fewer = total * 3 / 4;
        let loaded = |attempts: &[usize], notices| Outcome {
            attempts: attempts.to_vec(),
            notices,
            error: None,
        };
        assert_eq!(load(total, refused), loaded(&[total], 0));
        assert_eq!(load(fewer, refused), loaded(&[total, fewer], 1));
        assert_eq!(load(0, refused), loaded(&[total, fewer, 0], 2));
        assert_eq!(load(0, || panic!("lost")), loaded(&[total, fewer, 0], 2));
        // Later plans do not request a size that was refused.
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", 1 << 30), device("gpu9", "discrete", 1 << 30)];
        let plan = compute_plan(&bytes, &config, &options(GpuLayers::Auto), &devices)
            .unwrap()
            .plan;
        assert!(plan.fits && (plan.gpu_layers as usize) < fewer, "{plan:?}");
        let corrupt = Outcome {
            attempts: vec![total],
            notices: 0,
            error: Some(ProblemCode::FileInvalid),
        };
        assert_eq!(
            load(0, || Problem::detail(ProblemCode::FileInvalid, "corrupt")),
            corrupt
        );
    }
}
