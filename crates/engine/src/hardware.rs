//! What the machine has: processor, memory, devices a model can run on.

use hearth_kernels::dot::{Isa, Level};
use hearth_protocol::DeviceInfo;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// The id of the device that always exists.
pub const CPU: &str = "cpu";

/// Every device a model can be asked to run on; the first is [`CPU`].
pub fn devices() -> Vec<DeviceInfo> {
    let memory = memory();
    let cores = physical_cores();
    let plural = if cores == 1 { "" } else { "s" };
    vec![DeviceInfo {
        id: CPU.to_owned(),
        kind: CPU.to_owned(),
        name: processor_name(),
        backend: CPU.to_owned(),
        memory_total: memory.map(|memory| memory.total),
        memory_free: memory.map(|memory| memory.free),
        usable: true,
        why: format!(
            "{cores} core{plural}; its vector instructions in use: {}.",
            instructions()
        ),
        cores: u32::try_from(cores).ok(),
        backends: vec![CPU.to_owned()],
        ..DeviceInfo::default()
    }]
}

/// Main memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All there is, or all that this process may use where the system sets a limit (a container).
    pub total: u64,
    /// What could be had now without swapping.
    pub free: u64,
}

/// Main memory, or none where the system does not tell.
pub fn memory() -> Option<Memory> {
    let kind = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kind).ok()?;
    let (mut total, mut free) = (system.total_memory(), system.available_memory());
    if let Some(limits) = system.cgroup_limits().filter(|limits| limits.total_memory > 0) {
        total = total.min(limits.total_memory);
        free = free.min(limits.free_memory);
    }
    (total > 0).then_some(Memory { total, free })
}

/// Cores without their hyper-threads, and no more than the system gives this process.
pub fn physical_cores() -> usize {
    let given = std::thread::available_parallelism().map_or(1, usize::from);
    System::physical_core_count().map_or(given, |cores| cores.clamp(1, given))
}

/// The maker's name for the processor.
fn processor_name() -> String {
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(kind).ok();
    let brand = system
        .as_ref()
        .and_then(|system| system.cpus().first())
        .map(|cpu| cpu.brand().trim().to_owned());
    brand
        .filter(|brand| !brand.is_empty())
        .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The vector instructions that Hearth's loops use here, as people call them.
pub fn instructions() -> &'static str {
    match Isa::best().level() {
        Level::Scalar => "plain ones",
        Level::Avx2 => "AVX2",
        Level::Avx512 => "AVX-512 VNNI",
        Level::Neon => "NEON",
        Level::NeonDot => "NEON with dot products",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there_and_has_memory() {
        let devices = devices();
        let cpu = &devices[0];
        assert_eq!(
            (cpu.id.as_str(), cpu.kind.as_str(), cpu.backend.as_str(), cpu.usable),
            (CPU, CPU, CPU, true)
        );
        assert!(!cpu.name.is_empty());
        assert!(
            cpu.memory_free <= cpu.memory_total && cpu.memory_total > Some(0),
            "{cpu:?}"
        );
    }
}
