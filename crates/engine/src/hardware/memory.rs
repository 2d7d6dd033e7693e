//! Main memory.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Memory in bytes, of the machine or of a GPU.
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
