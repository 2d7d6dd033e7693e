//! Choosing the build of Hearth for a GPU: all that can use it are checked once, and the fastest
//! that matches the CPU's results is preferred.

use super::builds;
use super::gpu::{Gpu, Kind};
use super::records::{Subject, store};
use super::{CPU, cpu, gpus, instructions, merge, needs_drivers, probe, this_program};
use crate::problem::problem;
use hearth_llm::Place;
use hearth_protocol::{BackendOption, DeviceCheck, DeviceInfo, Problem, ProblemCode, device_names};
use std::path::PathBuf;

/// Adds the recorded checks to each GPU, and sorts its builds.
pub fn rank(gpus: &mut [Gpu]) {
    for gpu in gpus {
        for at in 0..gpu.backends.len() {
            let subject = gpu.subject(&gpu.backends[at].build);
            gpu.backends[at].check = store().check(&subject);
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

/// The subject of the CPU's check; the same in all builds.
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

/// Checks a device in every build that can use it, and the CPU, regardless of recorded checks. Each
/// check runs in a separate process. With a GPU that hangs it takes minutes.
///
/// # Errors
/// The device does not exist.
pub fn check(device: &str) -> Result<(), Problem> {
    check_cpu(true);
    if device == CPU {
        return Ok(());
    }
    let gpus = gpus();
    check_gpu(named(device, &gpus)?, true)
}

/// The place of a device, regardless of its check.
///
/// # Errors
/// The device does not exist, or this build cannot open it.
pub fn place(device: &str) -> Result<Place, Problem> {
    if device == CPU {
        return Ok(Place::Cpu);
    }
    let gpus = gpus();
    let gpu = named(device, &gpus)?;
    gpu.adapter.map(Place::Gpu).ok_or_else(|| {
        let message = format!("{} cannot be used by this build of Hearth: {}", gpu.name, gpu.why);
        problem(ProblemCode::NoDevice, message)
    })
}

fn named<'a>(device: &str, gpus: &'a [Gpu]) -> Result<&'a Gpu, Problem> {
    let ids = gpus.iter().map(|gpu| gpu.id.as_str());
    let found = gpus.iter().find(|gpu| gpu.is(device));
    found.ok_or_else(|| no_such(device, [CPU].into_iter().chain(ids)))
}

/// There is no device with this name, but these.
pub(crate) fn no_such<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    let message = format!("There is no device '{name}'. Choose one of: {}.", known.join(", "));
    problem(ProblemCode::NoDevice, message)
}

/// Checks a GPU in the builds that have not been checked, or, with `again`, in all builds.
///
/// # Errors
/// A build could not be checked, for example because the device's memory is in use.
fn check_gpu(gpu: &Gpu, again: bool) -> Result<(), Problem> {
    for option in gpu.backends.iter().filter(|option| again || option.check.is_none()) {
        let Some(program) = builds::program(&option.build) else {
            continue;
        };
        let found = probe::check(&program, Some(option.adapter), gpu.kind == Kind::Software);
        let found = found.map_err(|what| {
            let message = format!(
                "{} could not be checked with the build '{}': {what}",
                gpu.name, option.build
            );
            problem(ProblemCode::NoDevice, message)
        })?;
        if let Some(mismatch) = &found.mismatch {
            tracing::warn!("{}, {}: {mismatch}", gpu.name, option.build);
        }
        store().checked(gpu.subject(&option.build), found);
    }
    Ok(())
}

fn check_cpu(again: bool) {
    let subject = cpu_subject();
    if again {
        store().remove_decode_costs(&subject);
        store().remove_prefetches(&subject);
    }
    if (again || store().check(&subject).is_none())
        && let Some(program) = this_program()
        && let Ok(found) = probe::check(&program, None, false)
        // The CPU is the reference.
        && found.mismatch.is_none()
    {
        store().checked(subject, found);
    }
}

/// Checks the GPUs that `device` may mean (`None` means the automatic choice) in the builds in
/// which they were never checked, and in that case also the CPU, for comparison. Reports each GPU.
pub fn check_new(device: Option<&str>, report: &mut dyn FnMut(&str)) {
    if !needs_drivers(device) {
        return;
    }
    let may_be_used = |gpu: &Gpu| match device {
        Some(names) => device_names(names).any(|name| gpu.is(name)),
        None => gpu.kind != Kind::Software,
    };
    let unchecked = |gpu: &Gpu| gpu.kind != Kind::Software && gpu.backends.iter().any(|option| option.check.is_none());
    for gpu in gpus().iter().filter(|gpu| may_be_used(gpu) && unchecked(gpu)) {
        report(&format!("checking {} for the first time", gpu.name));
        check_cpu(false);
        // It is used anyway, and checked the next time.
        if let Err(problem) = check_gpu(gpu, false) {
            tracing::warn!("{problem}");
        }
    }
}

/// Refuses a build that does not exist at all.
///
/// # Errors
/// It is unknown.
pub fn check_build(build: &str) -> Result<(), Problem> {
    if builds::is_known(build) {
        Ok(())
    } else {
        let message = format!("Unknown build '{build}' of Hearth. Choose portable, vulkan, cuda or rocm.");
        Err(problem(ProblemCode::BadRequest, message))
    }
}

/// Refuses a build that is not installed next to this one.
///
/// # Errors
/// It is not.
pub fn check_installed(build: &str) -> Result<(), Problem> {
    match builds::program(build) {
        Some(_) => Ok(()),
        None => {
            let message = format!("The build '{build}' of Hearth is not installed beside this one.");
            Err(problem(ProblemCode::NoDevice, message))
        }
    }
}

/// The build to use all of these named devices with, and its executable if it is another than this
/// one; `build` is the requested one. For commands without a model; a model's plan chooses by
/// itself.
///
/// # Errors
/// The build is unknown, not installed, or cannot use those GPUs.
pub fn build_for(device: &str, build: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    build.map_or(Ok(()), check_build)?;
    let devices = super::devices();
    let named: Vec<&DeviceInfo> = devices[1..]
        .iter()
        .filter(|info| device_names(device).any(|name| info.is(name)))
        .collect();
    Ok(choose(&named, build)?.and_then(other_program))
}

/// The executable of a build. `None` means this one.
pub fn other_program(build: &str) -> Option<PathBuf> {
    if build == builds::own() {
        return None;
    }
    builds::program(build)
}

/// The build to use all of these devices with: the requested one, or the one whose slowest device
/// is fastest.
fn choose<'a>(used: &[&'a DeviceInfo], requested: Option<&'a str>) -> Result<Option<&'a str>, Problem> {
    let Some(first) = used.first() else { return Ok(None) };
    let seconds = |build: &str| {
        let backends = used
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
            None => Err(unusable(requested, used)),
        };
    }
    let able = first
        .backends
        .iter()
        .filter_map(|option| Some((option.build.as_str(), seconds(&option.build)?)));
    // On a tie the first, which is this build.
    let best = able.reduce(|best, next| if next.1 < best.1 { next } else { best });
    Ok(best.map(|(build, _)| build))
}

/// Why the requested build cannot use these devices.
pub fn unusable(build: &str, used: &[&DeviceInfo]) -> Problem {
    let names: Vec<&str> = used.iter().map(|device| device.name.as_str()).collect();
    let names = names.join(" and ");
    let mismatch = used
        .iter()
        .flat_map(|device| &device.backends)
        .find_map(|option| option.mismatch().filter(|_| option.build == build));
    let message = match (mismatch, builds::program(build)) {
        (Some(mismatch), _) => format!("The build '{build}' cannot be used with {names}: {mismatch}"),
        (None, None) => format!(
            "The build '{build}' of Hearth is not installed beside this one, so {names} cannot be used with it."
        ),
        (None, Some(_)) => format!("The build '{build}' of Hearth cannot use {names}."),
    };
    problem(ProblemCode::NoDevice, message)
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
    use hearth_protocol::DeviceCheck;

    fn device(kind: &str, backends: &[(&str, Option<f64>)]) -> DeviceInfo {
        let option = |(build, speed): &(&str, Option<f64>)| BackendOption {
            build: (*build).to_owned(),
            backend: String::new(),
            check: speed.map(|speed| DeviceCheck {
                mismatch: (speed < 0.0).then(|| "Wrong.".to_owned()),
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
        let chosen = |used: &[&DeviceInfo]| choose(used, None).expect("a choice").map(str::to_owned);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[&fast]).as_deref(), Some("cuda"));
        assert_eq!(
            chosen(&[&fast, &other]).as_deref(),
            Some("portable"),
            "its slowest is faster than Vulkan's"
        );
        assert_eq!(chosen(&[&fast, &broken]).as_deref(), Some("portable"));
        assert_eq!(choose(&[&fast], Some("vulkan")), Ok(Some("vulkan")));
        assert!(
            choose(&[&other], Some("cuda"))
                .unwrap_err()
                .message
                .contains("not installed")
        );
        assert!(choose(&[&broken], Some("cuda")).unwrap_err().message.contains("Wrong."));
    }
}
