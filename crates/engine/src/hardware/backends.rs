//! Choice of the build of Hearth for a GPU. Each build that can use the GPU is checked once, and
//! the fastest build that matches the CPU's results is preferred.

use super::builds;
use super::gpu::{Gpu, Kind};
use super::records::{Subject, store};
use super::{CPU, cpu, gpus, instructions, merge, needs_drivers, probe, this_program};
use hearth_llm::Place;
use hearth_protocol::{BackendOption, DeviceCheck, DeviceInfo, LoadReason, Problem, ProblemCode, Stage, device_names};
use std::path::PathBuf;

/// Adds the recorded checks to each GPU, and sorts its builds.
pub fn rank(gpus: &mut [Gpu]) {
    for gpu in gpus {
        for index in 0..gpu.backends.len() {
            let subject = gpu.subject(&gpu.backends[index].build);
            gpu.backends[index].check = store().check(&subject);
        }
        merge::rank(gpu, builds::own());
    }
}

/// The CPU's backend with its recorded check.
pub fn cpu_backend() -> BackendOption {
    BackendOption {
        build: builds::own().to_owned(),
        backend: CPU.to_owned(),
        check: store().check(&cpu_subject()),
        largest_buffer: None,
    }
}

/// The subject of the CPU's check, the same in all builds.
pub(super) fn cpu_subject() -> Subject {
    Subject {
        identity: CPU.to_owned(),
        name: cpu::cpu_name(),
        driver: Some(instructions().to_owned()),
        build: CPU.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        check: DeviceCheck::VERSION,
    }
}

/// Checks a device in every build that can use it, and the CPU, even if checks are recorded. Each
/// check runs in a separate process. If the GPU hangs, it takes minutes.
///
/// # Errors
/// The device does not exist.
pub fn check(device: &str) -> Result<(), Problem> {
    check_cpu(true);
    if device == CPU {
        return Ok(());
    }
    let gpus = gpus();
    check_gpu(find_gpu(device, &gpus)?, true)
}

/// The place of a device, whether or not it is checked.
///
/// # Errors
/// The device does not exist, or this build cannot open it.
pub fn place(device: &str) -> Result<Place, Problem> {
    if device == CPU {
        return Ok(Place::Cpu);
    }
    let gpus = gpus();
    let gpu = find_gpu(device, &gpus)?;
    gpu.adapter.map(Place::Gpu).ok_or_else(|| {
        let reason = LoadReason::NotInThisBuild {
            device: gpu.name.clone(),
            device_status: gpu.status.clone(),
        };
        Problem::new(ProblemCode::NoDevice, reason)
    })
}

fn find_gpu<'a>(device: &str, gpus: &'a [Gpu]) -> Result<&'a Gpu, Problem> {
    let ids = gpus.iter().map(|gpu| gpu.id.as_str());
    let gpu = gpus.iter().find(|gpu| gpu.is(device));
    gpu.ok_or_else(|| no_such(device, [CPU].into_iter().chain(ids)))
}

/// The problem that no device has this name. `known` are the ids of all devices.
pub(crate) fn no_such<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let reason = LoadReason::NoSuchDevice {
        name: name.to_owned(),
        known: known.map(str::to_owned).collect(),
    };
    Problem::new(ProblemCode::NoDevice, reason)
}

/// Checks a GPU in the builds without a recorded check, or with `again` in all builds.
///
/// # Errors
/// A build could not be checked, for example because the device's memory is in use.
fn check_gpu(gpu: &Gpu, again: bool) -> Result<(), Problem> {
    for option in gpu.backends.iter().filter(|option| again || option.check.is_none()) {
        let Some(program) = builds::program(&option.build) else {
            continue;
        };
        let check = probe::check(&program, Some(option.adapter), gpu.kind == Kind::Software);
        let check = check.map_err(|detail| {
            let reason = LoadReason::NotChecked {
                device: gpu.name.clone(),
                build: option.build.clone(),
                detail,
            };
            Problem::new(ProblemCode::NoDevice, reason)
        })?;
        if let Some(mismatch) = &check.mismatch {
            tracing::warn!("{}, {}: {mismatch}", gpu.name, option.build);
        }
        store().record_check(gpu.subject(&option.build), check);
    }
    Ok(())
}

fn check_cpu(again: bool) {
    let subject = cpu_subject();
    let Some(program) = this_program().filter(|_| again || store().check(&subject).is_none()) else {
        return;
    };
    let before = cpu::load_now();
    // The CPU is the reference, so it has no mismatch.
    let check = probe::check(&program, None, false);
    if let Some(check) = check.ok().filter(|check| check.mismatch.is_none()) {
        let loads = [before, cpu::load_now()];
        let load = loads.into_iter().flatten().reduce(f32::max);
        let is_recorded = store().record_check(subject.clone(), DeviceCheck { load, ..check });
        if again && is_recorded {
            store().remove_decode_costs(&subject);
            store().remove_prefetches(&subject);
        }
    }
}

/// Checks the GPUs that `device` may mean (`None` means the automatic choice) in the builds without
/// a recorded check. If there are any, also checks the CPU, for comparison. Reports each GPU.
pub fn check_new(device: Option<&str>, report: &mut dyn FnMut(Stage)) {
    if !needs_drivers(device) {
        return;
    }
    let is_candidate = |gpu: &Gpu| match device {
        Some(names) => device_names(names).any(|name| gpu.is(name)),
        None => gpu.kind != Kind::Software,
    };
    let is_unchecked =
        |gpu: &Gpu| gpu.kind != Kind::Software && gpu.backends.iter().any(|option| option.check.is_none());
    for gpu in gpus().iter().filter(|gpu| is_candidate(gpu) && is_unchecked(gpu)) {
        report(Stage::CheckingDevice {
            device: gpu.name.clone(),
        });
        check_cpu(false);
        // The GPU is used without a check, and checked the next time.
        if let Err(problem) = check_gpu(gpu, false) {
            tracing::warn!("{problem}");
        }
    }
}

/// Returns an error if Hearth has no build with this name.
///
/// # Errors
/// The build is unknown.
pub fn check_build(build: &str) -> Result<(), Problem> {
    if builds::is_known(build) {
        Ok(())
    } else {
        let build = build.to_owned();
        Err(Problem::new(
            ProblemCode::BadRequest,
            LoadReason::UnknownBuild { build },
        ))
    }
}

/// Returns an error if a build is not installed next to this one.
///
/// # Errors
/// The build is not installed.
pub fn check_installed(build: &str) -> Result<(), Problem> {
    match builds::program(build) {
        Some(_) => Ok(()),
        None => {
            let build = build.to_owned();
            Err(Problem::new(
                ProblemCode::NoDevice,
                LoadReason::BuildNotInstalled { build },
            ))
        }
    }
}

/// Chooses the build that uses all of the named devices, for commands without a model (a model's
/// plan makes its own choice). `build` is the requested one. Returns the build's executable. `None`
/// means this one.
///
/// # Errors
/// The build is unknown, not installed, or cannot use those GPUs.
pub fn build_for(device: &str, build: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    build.map_or(Ok(()), check_build)?;
    let devices = super::devices();
    let named_devices: Vec<&DeviceInfo> = devices[1..]
        .iter()
        .filter(|info| device_names(device).any(|name| info.is(name)))
        .collect();
    Ok(choose(&named_devices, build)?.and_then(other_program))
}

/// The executable of a build. `None` if it is this build, or if it is not installed.
pub fn other_program(build: &str) -> Option<PathBuf> {
    if build == builds::own() {
        return None;
    }
    builds::program(build)
}

/// Chooses the build that uses all of these devices: the requested one, or the one whose slowest
/// device is fastest.
fn choose<'a>(devices: &[&'a DeviceInfo], requested: Option<&'a str>) -> Result<Option<&'a str>, Problem> {
    let Some(first) = devices.first() else { return Ok(None) };
    let seconds = |build: &str| {
        let backends = devices
            .iter()
            .map(|device| device.backends.iter().find(|option| option.build == build));
        backends
            .map(|option| match &option?.check {
                Some(check) if check.mismatch.is_some() => None,
                Some(check) => Some(check.turn_seconds()),
                None => Some(f64::MAX),
            })
            .try_fold(0.0_f64, |slowest, seconds| Some(slowest.max(seconds?)))
    };
    if let Some(requested) = requested {
        return match seconds(requested) {
            Some(_) => Ok(Some(requested)),
            None => Err(unusable(requested, devices)),
        };
    }
    let candidates = first
        .backends
        .iter()
        .filter_map(|option| Some((option.build.as_str(), seconds(&option.build)?)));
    // On a tie the first, which is this build.
    let best = candidates.reduce(|best, next| if next.1 < best.1 { next } else { best });
    Ok(best.map(|(build, _)| build))
}

/// The problem that the requested build cannot use these devices, with the reason.
pub fn unusable(build: &str, devices: &[&DeviceInfo]) -> Problem {
    let mismatch = devices
        .iter()
        .flat_map(|device| &device.backends)
        .find_map(|option| option.mismatch().filter(|_| option.build == build));
    let devices: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    let is_installed = builds::program(build).is_some();
    let build = build.to_owned();
    let reason = match mismatch.cloned().map(Box::new) {
        Some(mismatch) => LoadReason::BuildMismatch {
            build,
            devices,
            mismatch,
        },
        None if is_installed => LoadReason::BuildCannotUse { build, devices },
        None => LoadReason::BuildNotInstalledFor { build, devices },
    };
    Problem::new(ProblemCode::NoDevice, reason)
}

impl Gpu {
    /// Whether the name is its id or identity.
    fn is(&self, name: &str) -> bool {
        name == self.id || (name == self.identity && !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::{DeviceCheck, Mismatch};

    fn device(kind: &str, backends: &[(&str, Option<f64>)]) -> DeviceInfo {
        let option = |(build, speed): &(&str, Option<f64>)| BackendOption {
            build: (*build).to_owned(),
            backend: String::new(),
            check: speed.map(|speed| DeviceCheck {
                mismatch: (speed < 0.0).then(|| Mismatch::Detail {
                    detail: "Wrong.".to_owned(),
                }),
                bytes_per_second: speed,
                macs_per_second: speed,
                ..DeviceCheck::default()
            }),
            largest_buffer: None,
        };
        DeviceInfo {
            kind: kind.to_owned(),
            backends: backends.iter().map(option).collect(),
            ..DeviceInfo::default()
        }
    }

    #[test]
    fn one_build_uses_all_devices() {
        let fast = device(
            "discrete",
            &[("cuda", Some(9e9)), ("vulkan", Some(8e9)), ("portable", Some(2e9))],
        );
        let other = device("discrete", &[("vulkan", Some(1e9)), ("portable", Some(3e9))]);
        let broken = device("discrete", &[("portable", Some(1e9)), ("cuda", Some(-1.0))]);
        let chosen = |devices: &[&DeviceInfo]| choose(devices, None).expect("a choice").map(str::to_owned);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[&fast]).as_deref(), Some("cuda"));
        assert_eq!(
            chosen(&[&fast, &other]).as_deref(),
            Some("portable"),
            "its slowest device is faster than Vulkan's"
        );
        assert_eq!(chosen(&[&fast, &broken]).as_deref(), Some("portable"));
        assert_eq!(choose(&[&fast], Some("vulkan")), Ok(Some("vulkan")));
        assert!(
            choose(&[&other], Some("cuda"))
                .unwrap_err()
                .to_string()
                .contains("not installed")
        );
        assert!(
            choose(&[&broken], Some("cuda"))
                .unwrap_err()
                .to_string()
                .contains("Wrong.")
        );
    }
}
