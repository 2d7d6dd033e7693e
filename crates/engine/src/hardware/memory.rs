//! Main memory.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Memory of the machine or of a GPU, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Total memory; in a container at most the container's limit.
    pub total: u64,
    /// Memory available without swapping.
    pub free: u64,
}

/// Main memory. `None` if unknown.
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
