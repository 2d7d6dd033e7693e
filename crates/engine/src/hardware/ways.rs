//! Which build of Hearth uses a GPU: those that can are checked once, and the fastest that computes what the processor does leads.

use super::builds;
use super::gpu::{Gpu, Kind};
use super::records::{Subject, store};
use super::{CPU, drivers_matter, gpus, instructions, merge, probe, processor, this_program};
use crate::problem::problem;
use hearth_llm::Place;
use hearth_protocol::{DeviceCheck, DeviceInfo, DeviceWay, GpuLayers, HANDED_OVER, Problem, ProblemCode};
use std::path::PathBuf;

/// Puts to each GPU what is known of it, and its builds in order.
pub fn rank(gpus: &mut [Gpu]) {
    for gpu in gpus {
        for at in 0..gpu.ways.len() {
            let subject = gpu.subject(&gpu.ways[at].build);
            gpu.ways[at].check = store().check(&subject);
        }
        merge::rank(gpu, builds::own());
    }
}

/// How the processor is used, and what is known of that.
pub fn of_the_processor() -> DeviceWay {
    DeviceWay {
        build: builds::own().to_owned(),
        backend: CPU.to_owned(),
        check: store().check(&processors()),
    }
}

/// What a check of the processor is about, in whatever build: they are the same there.
fn processors() -> Subject {
    Subject {
        identity: CPU.to_owned(),
        name: processor::processor_name(),
        driver: Some(instructions().to_owned()),
        build: CPU.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        check: DeviceCheck::VERSION,
    }
}

/// Whether a GPU is used without being asked for. A renderer in software never is. Where both were measured, it has to be faster than the
/// processor; where not, it has to have memory of its own, or to be Apple's.
pub fn chosen_by_itself(device: &DeviceInfo, processor: &DeviceInfo) -> bool {
    let seconds = |device: &DeviceInfo| device.ways.first()?.check.as_ref().map(|check| check.turn_seconds());
    let faster = match (seconds(device), seconds(processor)) {
        (Some(gpu), Some(cpu)) => Some(gpu < cpu),
        _ => None,
    };
    match device.kind.as_str() {
        "discrete" => faster != Some(false),
        "integrated" if device.backend == "metal" => faster != Some(false),
        "integrated" => faster == Some(true),
        _ => false,
    }
}

/// Checks a device in every build that can use it, and the processor beside it, whatever was found before. Each check is a process of its
/// own; a GPU that hangs takes minutes.
///
/// # Errors
/// There is no such device.
pub fn check(device: &str) -> Result<(), Problem> {
    check_processor(true);
    if device == CPU {
        return Ok(());
    }
    let gpus = gpus();
    let gpu = gpus.iter().find(|gpu| gpu.is(device)).ok_or_else(|| no_such(device))?;
    check_gpu(gpu, true)
}

/// Where operations run that are asked of this device, whatever was found when it was checked.
///
/// # Errors
/// There is no such device, or this build cannot open it.
pub fn place(device: &str) -> Result<Place, Problem> {
    if device == CPU {
        return Ok(Place::Cpu);
    }
    let gpus = gpus();
    let gpu = gpus.iter().find(|gpu| gpu.is(device)).ok_or_else(|| no_such(device))?;
    gpu.adapter.map(Place::Gpu).ok_or_else(|| {
        let message = format!("{} cannot be used by this build of Hearth: {}", gpu.name, gpu.why);
        problem(ProblemCode::NoDevice, message)
    })
}

fn no_such(device: &str) -> Problem {
    let message = format!("There is no device '{device}'; `hearth devices` lists those that there are.");
    problem(ProblemCode::NoDevice, message)
}

/// Checks what was not, or everything.
///
/// # Errors
/// A build could not be checked, and nothing is known of it: the device's memory is in use, say.
fn check_gpu(gpu: &Gpu, again: bool) -> Result<(), Problem> {
    for way in gpu.ways.iter().filter(|way| again || way.check.is_none()) {
        let Some(program) = builds::program(&way.build) else {
            continue;
        };
        let found = probe::check(&program, Some(way.adapter), gpu.kind == Kind::Software);
        let found = found.map_err(|what| {
            let message = format!(
                "{} could not be checked with the build '{}': {what}",
                gpu.name, way.build
            );
            problem(ProblemCode::NoDevice, message)
        })?;
        if let Some(wrong) = &found.wrong {
            tracing::warn!("{}, {}: {wrong}", gpu.name, way.build);
        }
        store().checked(gpu.subject(&way.build), found);
    }
    Ok(())
}

fn check_processor(again: bool) {
    let subject = processors();
    if (again || store().check(&subject).is_none())
        && let Some(program) = this_program()
        && let Ok(found) = probe::check(&program, None, false)
        // It is what others are compared with.
        && found.wrong.is_none()
    {
        store().checked(subject, found);
    }
}

/// The program of the build that is to use `device` (the GPUs that are chosen by themselves, where it is none), if that is another than
/// this one; `build` is the one that a person wants. GPUs that may be used and were never checked are checked first, which `say`
/// is told.
///
/// # Errors
/// The build is not known, is not there, or cannot use those GPUs.
pub fn elsewhere(
    device: Option<&str>,
    build: Option<&str>,
    layers: GpuLayers,
    say: &mut dyn FnMut(&str),
) -> Result<Option<PathBuf>, Problem> {
    if std::env::var_os(HANDED_OVER).is_some() || layers == GpuLayers::Count(0) || !drivers_matter(device) {
        return Ok(None);
    }
    if let Some(build) = build.filter(|build| !builds::is_known(build)) {
        let message = format!("There is no build '{build}' of Hearth. Choose portable, vulkan, cuda or rocm.");
        return Err(problem(ProblemCode::BadRequest, message));
    }
    let may_be_used = |gpu: &Gpu| match device {
        Some(ids) => ids.split(',').any(|id| gpu.is(id.trim())),
        None => gpu.kind != Kind::Software,
    };
    let unchecked = |gpu: &Gpu| gpu.kind != Kind::Software && gpu.ways.iter().any(|way| way.check.is_none());
    for gpu in gpus().iter().filter(|gpu| may_be_used(gpu) && unchecked(gpu)) {
        say(&format!("checking {}, once", gpu.name));
        check_processor(false);
        // It is tried all the same, and checked the next time.
        if let Err(problem) = check_gpu(gpu, false) {
            tracing::warn!("{problem}");
        }
    }
    let devices = super::devices();
    let used: Vec<&DeviceInfo> = devices[1..]
        .iter()
        .filter(|info| match device {
            Some(ids) => ids
                .split(',')
                .any(|id| id.trim() == info.id || id.trim() == info.identity),
            None => info.usable && chosen_by_itself(info, &devices[0]),
        })
        .collect();
    let Some(chosen) = choose(&used, build)? else {
        return Ok(None);
    };
    if chosen == builds::own() {
        return Ok(None);
    }
    tracing::info!("the build '{chosen}' of Hearth goes on");
    Ok(builds::program(chosen))
}

/// The build that all of these devices are used by: the one that is wanted, or the one whose slowest is fastest.
fn choose<'a>(used: &[&'a DeviceInfo], wanted: Option<&'a str>) -> Result<Option<&'a str>, Problem> {
    let Some(first) = used.first() else { return Ok(None) };
    let seconds = |build: &str| {
        let ways = used
            .iter()
            .map(|device| device.ways.iter().find(|way| way.build == build));
        ways.map(|way| match &way?.check {
            Some(check) if check.wrong.is_some() => None,
            Some(check) => Some(check.turn_seconds()),
            None => Some(f64::MAX),
        })
        .try_fold(0.0_f64, |slowest, seconds| Some(slowest.max(seconds?)))
    };
    if let Some(wanted) = wanted {
        return match seconds(wanted) {
            Some(_) => Ok(Some(wanted)),
            None => Err(cannot(wanted, used)),
        };
    }
    let able = first
        .ways
        .iter()
        .filter_map(|way| Some((way.build.as_str(), seconds(&way.build)?)));
    // Of equals the first, which is this one.
    let best = able.reduce(|best, next| if next.1 < best.1 { next } else { best });
    Ok(best.map(|(build, _)| build))
}

/// Why a build that is wanted cannot use these devices.
fn cannot(build: &str, used: &[&DeviceInfo]) -> Problem {
    let names: Vec<&str> = used.iter().map(|device| device.name.as_str()).collect();
    let names = names.join(" and ");
    let wrong = used.iter().flat_map(|device| &device.ways).find_map(|way| {
        let check = way.check.as_ref().filter(|_| way.build == build)?;
        check.wrong.as_deref()
    });
    let message = match (wrong, builds::program(build)) {
        (Some(wrong), _) => format!("The build '{build}' cannot be used with {names}: {wrong}"),
        (None, None) => format!(
            "The build '{build}' of Hearth is not installed beside this one, so {names} cannot be used with it."
        ),
        (None, Some(_)) => format!("The build '{build}' of Hearth cannot use {names}."),
    };
    problem(ProblemCode::NoDevice, message)
}

impl Gpu {
    /// Whether a person means this one.
    fn is(&self, name: &str) -> bool {
        name == self.id || name == self.identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::DeviceCheck;

    fn device(kind: &str, ways: &[(&str, Option<f64>)]) -> DeviceInfo {
        let way = |(build, speed): &(&str, Option<f64>)| DeviceWay {
            build: (*build).to_owned(),
            backend: String::new(),
            check: speed.map(|speed| DeviceCheck {
                wrong: (speed < 0.0).then(|| "Wrong.".to_owned()),
                bytes_per_second: speed,
                products_per_second: speed,
                ..DeviceCheck::default()
            }),
        };
        DeviceInfo {
            kind: kind.to_owned(),
            ways: ways.iter().map(way).collect(),
            ..DeviceInfo::default()
        }
    }

    #[test]
    fn a_gpu_that_is_slower_than_the_processor_is_not_chosen() {
        let chosen = |kind, speed: Option<f64>| {
            chosen_by_itself(
                &device(kind, &[("portable", speed)]),
                &device("cpu", &[("portable", Some(5e9))]),
            )
        };
        assert!(chosen("discrete", None) && chosen("discrete", Some(6e9)) && !chosen("discrete", Some(4e9)));
        assert!(!chosen("integrated", None) && chosen("integrated", Some(6e9)) && !chosen("integrated", Some(4e9)));
        assert!(!chosen("software", None) && !chosen("software", Some(9e9)));
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
