//! Whether a plan's part in main memory fits this machine at all.

use super::Planned;
use crate::problem::problem;
use hearth_formats::byte_size;
use hearth_protocol::{PlannedDevice, Problem, ProblemCode};

/// The main memory used by the CPU and all GPUs that share it.
pub(super) fn sum<'a>(cpu: &PlannedDevice, sharing: impl Iterator<Item = &'a PlannedDevice>) -> PlannedDevice {
    sharing.fold(cpu.clone(), |sum, device| PlannedDevice {
        weights: sum.weights.saturating_add(device.weights),
        kv: sum.kv.saturating_add(device.kv),
        draft: sum.draft.saturating_add(device.draft),
        compute: sum.compute.saturating_add(device.compute),
        ..sum
    })
}

impl Planned {
    /// Refuses a plan that exceeds main memory, and adds a notice if it exceeds the free part.
    ///
    /// # Errors
    /// If the model cannot fit in main memory.
    pub(crate) fn check_main_memory(&self, notices: &mut Vec<String>) -> Result<(), Problem> {
        let memory = &self.main_memory;
        let (Some(total), Some(free)) = (memory.total, memory.free) else {
            return Ok(());
        };
        let sizes = sizes(memory, self.plan.context, total, free);
        if memory.needed() > total {
            let without_context = memory.needed().saturating_sub(memory.kv);
            let advice = if memory.weights > total / 2 || without_context > total {
                "Choose a smaller model, or the same one at a lower quantization."
            } else {
                "Choose a shorter context."
            };
            return Err(problem(ProblemCode::OutOfMemory, format!("{sizes} {advice}")));
        }
        if memory.needed() > free {
            notices.push(format!(
                "{sizes} It may be slow. Close other programs, or choose a smaller model."
            ));
        }
        Ok(())
    }
}

/// A sentence with the bytes of each part and of the memory.
fn sizes(memory: &PlannedDevice, context: u32, total: u64, free: u64) -> String {
    let draft = match memory.draft {
        0 => String::new(),
        bytes => format!(", its draft model {}", byte_size(bytes)),
    };
    format!(
        "The model's weights take {}, a context of {context} tokens {}{draft} and its buffers {}; this machine has {} \
         of memory, {} of it free.",
        byte_size(memory.weights),
        byte_size(memory.kv),
        byte_size(memory.compute),
        byte_size(total),
        byte_size(free),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::compute_plan;
    use crate::plan::tests::{device, fixture, options};
    use hearth_protocol::GpuLayers;

    const TOTAL: u64 = 16 << 30;

    /// A plan for a fixture with all layers on a GPU of this kind, on a machine with this memory.
    fn planned(kind: &str, memory: u64) -> Planned {
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", memory), device("gpu0", kind, 1 << 40)];
        compute_plan(&bytes, &config, &options(GpuLayers::All), &devices).expect("a plan")
    }

    #[test]
    fn a_model_that_cannot_fit_is_refused_with_advice() {
        let check = |weights, kv, notices: &mut Vec<String>| {
            let mut planned = planned("discrete", TOTAL);
            planned.main_memory = PlannedDevice {
                weights,
                kv,
                total: Some(TOTAL),
                free: Some(TOTAL / 2),
                ..PlannedDevice::default()
            };
            planned.check_main_memory(notices)
        };
        for (weights, kv, advice) in [
            (TOTAL + 1, 0, "lower quantization."),
            (1, TOTAL, "shorter context."),
            (u64::MAX, u64::MAX, "lower quantization."),
        ] {
            let refused = check(weights, kv, &mut Vec::new()).unwrap_err();
            assert!(
                refused.code == ProblemCode::OutOfMemory && refused.message.ends_with(advice),
                "{refused:?}"
            );
        }
        let mut notices = Vec::new();
        assert_eq!(check(0, 0, &mut notices), Ok(()));
        assert_eq!(notices.len(), 0);
        assert_eq!(check(TOTAL - 1, 0, &mut notices), Ok(()));
        assert_eq!(notices.len(), 1);
    }

    #[test]
    fn layers_on_a_gpu_that_shares_main_memory_are_counted() {
        let of = |kind| planned(kind, TOTAL).main_memory.needed();
        let (on_gpu, on_cpu) = (of("integrated"), of("discrete"));
        assert!(on_cpu < on_gpu, "{on_cpu} {on_gpu}");
        let accepted = |kind, memory| planned(kind, memory).check_main_memory(&mut Vec::new()).is_ok();
        assert!(accepted("discrete", on_gpu - 1) && accepted("integrated", on_gpu));
        assert!(!accepted("integrated", on_gpu - 1));
    }
}
