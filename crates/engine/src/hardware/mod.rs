//! What the machine has: processor, memory, devices a model can run on.
//!
//! The graphics drivers are asked once, in a process of its own ([`probe`]); what changes all the time, memory and load,
//! is read again whenever [`devices`] is called, and never from a graphics driver.

#[cfg(feature = "wgpu")]
mod adapters;
mod builds;
mod cores;
#[cfg(feature = "cuda")]
mod cuda;
mod gpu;
mod memory;
mod merge;
mod nvml;
mod probe;
mod processor;
pub(crate) mod records;
mod sysfs;
mod vulkan;
mod ways;

pub use gpu::{Gpu, Kind, Live, Pci};
pub use memory::{Memory, memory};
pub use probe::{LIMIT, Probe, ask, check_here, probe, this_program};
pub use processor::{instructions, performance_cores, physical_cores};
pub use records::keep_in;
pub use ways::{check, chosen_by_itself, elsewhere, place};

use hearth_protocol::DeviceInfo;
use std::sync::OnceLock;

/// The id of the device that always exists.
pub const CPU: &str = "cpu";

/// Every device a model can be asked to run on; the first is [`CPU`]. The first call asks the graphics drivers, which
/// may take up to [`LIMIT`].
pub fn devices() -> Vec<DeviceInfo> {
    let gpus = gpus();
    let mut devices = vec![processor(problem())];
    devices.extend(gpus.iter().map(Gpu::info));
    devices
}

/// The devices among which those for a model are chosen, where a person asked for `device` or for none: [`devices`], without the
/// graphics drivers being asked where their answer would change nothing.
pub fn devices_for(device: Option<&str>) -> Vec<DeviceInfo> {
    match drivers_matter(device) {
        true => devices(),
        false => vec![processor(None)],
    }
}

/// Begins to ask the graphics drivers, if [`devices_for`] will, so that it has less to wait for.
pub fn ask_ahead(device: Option<&str>) {
    if drivers_matter(device) {
        // Without a thread to spare it is asked later.
        let _ = std::thread::Builder::new().spawn(probed);
    }
}

/// Whether a model may come to lie on a GPU. One in software has to be named.
fn drivers_matter(device: Option<&str>) -> bool {
    match device {
        Some(device) => device != CPU,
        None => probe::is_named() || sysfs::may_have_gpu(),
    }
}

/// Every GPU once, `gpu0` first, as it is now. The first call asks the graphics drivers, which may take up to [`LIMIT`].
pub fn gpus() -> Vec<Gpu> {
    let mut gpus = probed().gpus.clone();
    ways::rank(&mut gpus);
    refresh(&mut gpus);
    gpus
}

/// What went wrong when the graphics drivers were asked, in whole sentences; none where all is well.
pub fn problem() -> Option<&'static str> {
    probed().problem.as_deref()
}

/// The number by which `hearth_llm` opens the GPU of this id. One that this build cannot open has a number too, which stands for it in
/// a plan. None where the id is no GPU's.
pub fn gpu_number(id: &str) -> Option<usize> {
    /// More than any machine has.
    const ELSEWHERE: usize = 1000;
    let gpus = &probed().gpus;
    match gpus.iter().position(|gpu| gpu.id == id) {
        Some(at) => Some(gpus[at].adapter.unwrap_or(ELSEWHERE + at)),
        // One that is only assumed.
        None => id.strip_prefix("gpu")?.parse().ok(),
    }
}

/// Reads again what changes: memory and load. Asks no graphics driver.
pub fn refresh(gpus: &mut [Gpu]) {
    let main = memory();
    for gpu in gpus {
        match (gpu.kind, gpu.live) {
            (Kind::Discrete, Live::Nvml) => nvml::refresh(gpu),
            (Kind::Discrete, Live::Sysfs) => sysfs::refresh(gpu),
            (Kind::Discrete, Live::Nobody) => {}
            (Kind::Integrated | Kind::Software, _) => {
                if let (Some(total), Some(main)) = (gpu.memory_total, main) {
                    gpu.memory_free = Some(main.free.min(total));
                }
            }
        }
    }
}

/// What the drivers said, to this build and to those beside it, asked once in the life of the process.
fn probed() -> &'static Probe {
    static PROBED: OnceLock<Probe> = OnceLock::new();
    PROBED.get_or_init(|| {
        if probe::is_asking() {
            return Probe::default();
        }
        let builds = builds::all();
        let probes: Vec<Probe> = std::thread::scope(|scope| {
            let ask = |build: &'_ builds::Build| probe(&build.program, LIMIT);
            let asked: Vec<_> = builds.iter().map(|build| scope.spawn(move || ask(build))).collect();
            // A thread that panicked has seen nothing.
            asked
                .into_iter()
                .map(|asked| asked.join().unwrap_or_default())
                .collect()
        });
        let (mut problem, mut seen) = (None, Vec::new());
        for (build, probe) in builds.iter().zip(probes) {
            if let Some(what) = &probe.problem {
                tracing::warn!("{}: {what}", build.name);
            }
            if build.name == builds::own() {
                problem = probe.problem;
            }
            seen.push((build.name, probe.gpus));
        }
        Probe {
            gpus: merge::join(builds::own(), seen),
            problem,
        }
    })
}

/// The processor, which says too why there is no GPU where the drivers failed.
fn processor(problem: Option<&str>) -> DeviceInfo {
    let memory = memory();
    let cores = physical_cores();
    let plural = if cores == 1 { "" } else { "s" };
    let mut why = format!(
        "{cores} core{plural}; its vector instructions in use: {}.",
        instructions()
    );
    if let Some(problem) = problem {
        why = format!("{why} {problem}");
    }
    DeviceInfo {
        id: CPU.to_owned(),
        identity: CPU.to_owned(),
        kind: CPU.to_owned(),
        name: processor::processor_name(),
        backend: CPU.to_owned(),
        memory_total: memory.map(|memory| memory.total),
        memory_free: memory.map(|memory| memory.free),
        usable: true,
        why,
        load: processor::load(),
        cores: u32::try_from(cores).ok(),
        performance_cores: u32::try_from(performance_cores()).ok(),
        backends: vec![CPU.to_owned()],
        ways: vec![ways::of_the_processor()],
        ..DeviceInfo::default()
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
        assert!(
            cpu.performance_cores <= cpu.cores && cpu.performance_cores > Some(0),
            "{cpu:?}"
        );
    }

    #[test]
    fn a_card_that_vanishes_is_not_usable_any_more() {
        let mut gpus = [Gpu {
            pci: "ffff:ff:1f.7".parse().ok(),
            memory_free: Some(1),
            usable: true,
            live: Live::Sysfs,
            ..Gpu::default()
        }];
        refresh(&mut gpus);
        assert_eq!((gpus[0].usable, gpus[0].memory_free), (false, None));
        assert!(gpus[0].why.contains("gone"));
    }
}
