//! Checks whether the part of a plan in main memory fits on this machine.

use super::ModelPlan;
use hearth_protocol::{LoadReason, MemoryNeed, Notice, PlannedDevice, Problem, ProblemCode};

/// The main memory that the CPU uses, together with the GPUs that share it.
pub(super) fn sum<'a>(cpu: &PlannedDevice, sharing_gpus: impl Iterator<Item = &'a PlannedDevice>) -> PlannedDevice {
    sharing_gpus.fold(cpu.clone(), |sum, device| PlannedDevice {
        weights: sum.weights.saturating_add(device.weights),
        kv: sum.kv.saturating_add(device.kv),
        draft: sum.draft.saturating_add(device.draft),
        compute: sum.compute.saturating_add(device.compute),
        ..sum
    })
}

impl ModelPlan {
    /// Checks that the plan fits in main memory. Adds a notice if it needs more than the free part.
    ///
    /// # Errors
    /// The model cannot fit in main memory.
    pub(crate) fn check_main_memory(&self, notices: &mut Vec<Notice>) -> Result<(), Problem> {
        let memory = &self.main_memory;
        let (Some(total), Some(free)) = (memory.total, memory.free) else {
            return Ok(());
        };
        let need = memory_need(memory, self.plan.context, total, free);
        if memory.needed() > total {
            let without_kv = memory.needed().saturating_sub(memory.kv);
            let reason = if memory.weights > total / 2 || without_kv > total {
                LoadReason::ModelTooLarge { need }
            } else {
                LoadReason::ContextTooLarge { need }
            };
            return Err(Problem::new(ProblemCode::OutOfMemory, reason));
        }
        if memory.needed() > free {
            notices.push(Notice::MemoryTight { need });
        }
        Ok(())
    }
}

/// The bytes of each part, and of main memory.
fn memory_need(memory: &PlannedDevice, context: u32, total_bytes: u64, free_bytes: u64) -> MemoryNeed {
    let (weights_bytes, context_bytes, buffers_bytes) = (memory.weights, memory.kv, memory.compute);
    match memory.draft {
        0 => MemoryNeed::Model {
            weights_bytes,
            context,
            context_bytes,
            buffers_bytes,
            total_bytes,
            free_bytes,
        },
        draft_bytes => MemoryNeed::WithDraft {
            weights_bytes,
            context,
            context_bytes,
            draft_bytes,
            buffers_bytes,
            total_bytes,
            free_bytes,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::compute_plan;
    use crate::plan::tests::{device, fixture, options};
    use hearth_protocol::GpuLayers;

    const TOTAL: u64 = 16 << 30;

    /// A plan for a fixture with all layers on a GPU of this kind, on a machine with this memory.
    fn plan(kind: &str, memory: u64) -> ModelPlan {
        let (bytes, config) = fixture("llama.gguf");
        let devices = [device("cpu", "cpu", memory), device("gpu0", kind, 1 << 40)];
        compute_plan(&bytes, &config, &options(GpuLayers::All), &devices).expect("a plan")
    }

    #[test]
    fn a_model_that_cannot_fit_is_refused_with_advice() {
        let check = |weights, kv, notices: &mut Vec<Notice>| {
            let mut plan = plan("discrete", TOTAL);
            plan.main_memory = PlannedDevice {
                weights,
                kv,
                total: Some(TOTAL),
                free: Some(TOTAL / 2),
                ..PlannedDevice::default()
            };
            plan.check_main_memory(notices)
        };
        for (weights, kv, advice) in [
            (TOTAL + 1, 0, "lower quantization."),
            (1, TOTAL, "shorter context."),
            (u64::MAX, u64::MAX, "lower quantization."),
        ] {
            let refused = check(weights, kv, &mut Vec::new()).unwrap_err();
            assert!(
                refused.code == ProblemCode::OutOfMemory && refused.to_string().ends_with(advice),
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
        let needed = |kind| plan(kind, TOTAL).main_memory.needed();
        let (with_gpu, cpu_only) = (needed("integrated"), needed("discrete"));
        assert!(cpu_only < with_gpu, "{cpu_only} {with_gpu}");
        let accepted = |kind, memory| plan(kind, memory).check_main_memory(&mut Vec::new()).is_ok();
        assert!(accepted("discrete", with_gpu - 1) && accepted("integrated", with_gpu));
        assert!(!accepted("integrated", with_gpu - 1));
    }
}
