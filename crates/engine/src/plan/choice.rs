//! Choice of the build and the devices for a model: those that are predicted to answer soonest.

use super::decode_speed::DecodeWeights;
use super::draft::{draft_bytes, target_bytes};
use super::{ModelBytes, ModelPlan, PlanOptions, compute_plan, free, judge_speed};
use crate::check::decode_cost::DecodeCost;
use crate::hardware::{self, CPU};
use crate::problem::{from_gguf, from_load};
use hearth_formats::gguf::Gguf;
use hearth_llm::{Config, Place};
use hearth_protocol::{
    BackendOption, DeviceCheck, DeviceInfo, GpuLayers, LoadReason, Plan, PlanRequest, Problem, ProblemCode, Stage,
    device_names,
};
use std::cmp::Ordering;

/// Maximum number of GPUs of which every combination is tried. Of more GPUs, the fastest one, the
/// two fastest and so on are tried.
const MAX_COMBINED: usize = 4;

/// Plans a load of a file without loading it, in the build and on the devices that are predicted to
/// answer a typical turn soonest. If the request allows device checks, the devices that need one
/// are checked and reported to `report`.
///
/// # Errors
/// The file cannot be read or is unsupported, or the requested device or build does not exist or
/// cannot be used.
pub fn plan(request: &PlanRequest, report: &mut dyn FnMut(Stage)) -> Result<Plan, Problem> {
    let gguf = Gguf::open(&request.path).map_err(from_gguf)?;
    let config = Config::from_gguf(&gguf).map_err(from_load)?;
    let bytes = target_bytes(
        ModelBytes::from_header(&gguf, &config).map_err(from_load)?,
        &request.draft,
    );
    // The plan omits an unreadable draft. The load will report it.
    let draft = draft_bytes(&request.draft).ok().flatten();
    request.build.as_deref().map_or(Ok(()), hardware::check_build)?;
    let uses_gpus = request.gpu_layers != GpuLayers::Count(0) && hardware::needs_drivers(request.device.as_deref());
    if uses_gpus && request.assume_gpu.is_none() {
        request.build.as_deref().map_or(Ok(()), hardware::check_installed)?;
        if request.check {
            hardware::check_new(request.device.as_deref(), report);
        }
    }
    let mut devices = match (request.assume_gpu, uses_gpus) {
        (Some(bytes), _) => assumed_gpu(bytes),
        (None, true) => hardware::devices_for(request.device.as_deref()),
        (None, false) => hardware::devices_for(Some(CPU)),
    };
    free::account_for_models(&mut devices, request);
    let weights = DecodeWeights::from_header(&gguf, &config);
    let threads = hardware::team_size(request.threads)? as usize;
    let model = Model {
        bytes: &bytes,
        cost: weights.cost(threads, request.measure_speed),
        weights,
        draft,
        config: &config,
        weights_per_byte: gguf.parameter_count() as f64 / gguf.file_size().max(1) as f64,
    };
    best_plan(&model, request, &devices)
}

/// The model to plan for.
struct Model<'a> {
    bytes: &'a ModelBytes,
    weights: DecodeWeights,
    /// The CPU's decode cost, if it is measured.
    cost: Option<DecodeCost>,
    draft: Option<ModelBytes>,
    config: &'a Config,
    weights_per_byte: f64,
}

/// A build, and the GPUs on which it may place the model. Without GPUs, only the CPU is used.
#[derive(Debug, Clone, PartialEq)]
struct Candidate<'a> {
    build: &'a str,
    gpus: Vec<&'a DeviceInfo>,
}

/// Returns the best plan of all candidates.
fn best_plan(model: &Model, request: &PlanRequest, devices: &[DeviceInfo]) -> Result<Plan, Problem> {
    let mut best: Option<Plan> = None;
    for candidate in candidates(request, devices)? {
        let plan = candidate.plan(model, request, devices)?;
        if best.as_ref().is_none_or(|best| is_better(&plan, best)) {
            best = Some(plan);
        }
    }
    best.ok_or_else(|| Problem::new(ProblemCode::NoDevice, LoadReason::NoDevice))
}

/// Whether a plan is better than another one: it fits and the other one does not, or it is faster.
fn is_better(plan: &Plan, other: &Plan) -> bool {
    let seconds = |plan: &Plan| plan.turn_seconds.unwrap_or(f64::INFINITY);
    match plan.fits.cmp(&other.fits) {
        Ordering::Equal => seconds(plan) < seconds(other),
        fits => fits == Ordering::Greater,
    }
}

/// The candidates. Of equally fast ones, the first is preferred.
///
/// # Errors
/// A requested device or build cannot be used.
fn candidates<'a>(request: &'a PlanRequest, devices: &'a [DeviceInfo]) -> Result<Vec<Candidate<'a>>, Problem> {
    let on_cpu = Candidate {
        build: hardware::own_build(),
        gpus: Vec::new(),
    };
    let requested = request.device.as_deref();
    let gpus = match request.gpu_layers {
        GpuLayers::Count(0) => Vec::new(),
        _ => gpus(requested, devices)?,
    };
    if gpus.is_empty() {
        return Ok(vec![on_cpu]);
    }
    let mut candidates = Vec::new();
    for build in builds(request, &gpus) {
        let usable: Vec<&DeviceInfo> = gpus.iter().copied().filter(|gpu| can_use(build, gpu)).collect();
        let sets = match requested {
            Some(_) if usable.len() < gpus.len() => Vec::new(),
            Some(_) => vec![usable],
            None => combinations(usable, build),
        };
        candidates.extend(sets.into_iter().map(|gpus| Candidate { build, gpus }));
    }
    match &request.build {
        Some(build) if candidates.is_empty() => return Err(hardware::unusable(build, &gpus)),
        _ => {}
    }
    if candidates.is_empty() || (requested.is_none() && request.gpu_layers == GpuLayers::Auto) {
        // First, so that it is preferred to GPUs without layers.
        candidates.insert(0, on_cpu);
    }
    Ok(candidates)
}

/// The requested GPUs without duplicates, or those that are selected automatically. The first of
/// `devices` is the CPU.
///
/// # Errors
/// A requested device is not a usable GPU.
pub(super) fn gpus<'a>(requested: Option<&str>, devices: &'a [DeviceInfo]) -> Result<Vec<&'a DeviceInfo>, Problem> {
    let Some((cpu, gpus)) = devices.split_first() else {
        return Ok(Vec::new());
    };
    let usable = || gpus.iter().filter(|gpu| gpu.usable);
    let list = match requested {
        Some(CPU) => return Ok(Vec::new()),
        Some(list) => list,
        None => return Ok(usable().filter(|gpu| hardware::is_auto_selected(gpu, cpu)).collect()),
    };
    let mut named: Vec<&DeviceInfo> = Vec::new();
    for name in device_names(list) {
        let gpu = usable()
            .find(|gpu| gpu.is(name))
            .ok_or_else(|| refusal(name, devices))?;
        if named.iter().all(|other| other.id != gpu.id) {
            named.push(gpu);
        }
    }
    Ok(named)
}

/// The problem of a requested device that is not a usable GPU.
fn refusal(name: &str, devices: &[DeviceInfo]) -> Problem {
    let reason = match devices.iter().find(|device| device.is(name)) {
        Some(device) if device.id == CPU => LoadReason::CpuAmongGpus,
        Some(device) => LoadReason::DeviceUnusable {
            device: device.name.clone(),
            device_status: device.status.clone(),
        },
        None => return hardware::no_such(name, devices.iter().map(|device| device.id.as_str())),
    };
    Problem::new(ProblemCode::NoDevice, reason)
}

/// The builds to try, this one first.
fn builds<'a>(request: &'a PlanRequest, gpus: &[&'a DeviceInfo]) -> Vec<&'a str> {
    if let Some(build) = &request.build {
        return vec![build];
    }
    let mut builds = vec![hardware::own_build()];
    for backend in gpus.iter().flat_map(|gpu| &gpu.backends) {
        if !builds.contains(&backend.build.as_str()) {
            builds.push(&backend.build);
        }
    }
    builds
}

/// Whether a build can use a GPU and has no known mismatch.
fn can_use(build: &str, gpu: &DeviceInfo) -> bool {
    // A hypothetical GPU has no builds.
    gpu.backends.is_empty() || backend(build, gpu).is_some_and(|backend| backend.mismatch().is_none())
}

/// A GPU's backend in a build. `None` if the build cannot use the GPU.
fn backend<'a>(build: &str, gpu: &'a DeviceInfo) -> Option<&'a BackendOption> {
    gpu.backends.iter().find(|backend| backend.build == build)
}

/// The sets of GPUs to try, smaller sets first.
fn combinations<'a>(mut gpus: Vec<&'a DeviceInfo>, build: &str) -> Vec<Vec<&'a DeviceInfo>> {
    if gpus.len() > MAX_COMBINED {
        let seconds = |gpu: &DeviceInfo| speed(build, gpu).turn_seconds();
        gpus.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        return (1..=gpus.len()).map(|count| gpus[..count].to_vec()).collect();
    }
    let mut sets: Vec<Vec<&DeviceInfo>> = (1_u32..1 << gpus.len())
        .map(|set| {
            (0..gpus.len())
                .filter(|index| set & (1 << index) != 0)
                .map(|index| gpus[index])
                .collect()
        })
        .collect();
    sets.sort_by_key(Vec::len);
    sets
}

/// The measured speed of a device in a build, or the default if it is not measured.
fn speed(build: &str, device: &DeviceInfo) -> DeviceCheck {
    let backend = if device.id == CPU {
        device.backends.first()
    } else {
        backend(build, device)
    };
    backend
        .and_then(|backend| backend.check.clone())
        .unwrap_or(if device.id == CPU {
            DeviceCheck::ASSUMED_CPU
        } else {
            DeviceCheck::ASSUMED_GPU
        })
}

impl Candidate<'_> {
    /// Plans the model in this build on these GPUs.
    fn plan(&self, model: &Model, request: &PlanRequest, devices: &[DeviceInfo]) -> Result<Plan, Problem> {
        let ids: Vec<&str> = self.gpus.iter().map(|gpu| gpu.id.as_str()).collect();
        let devices: Vec<DeviceInfo> = devices.iter().map(|device| self.with_limits(device)).collect();
        let options = PlanOptions {
            context: request.context,
            device: Some(if ids.is_empty() { CPU.to_owned() } else { ids.join(",") }),
            gpu_layers: request.gpu_layers,
            kv: request.kv,
            training: None,
            draft: model.draft.clone(),
        };
        let model_plan = compute_plan(model.bytes, model.config, &options, &devices)?;
        let seconds = self.turn_seconds(model, &model_plan, &devices);
        let tokens_per_second = self.tokens_per_second(model, &model_plan);
        let mut plan = Plan {
            build: self.build.to_owned(),
            program: hardware::other_program(self.build),
            turn_seconds: Some(seconds),
            tokens_per_second,
            ..model_plan.plan
        };
        if let Some(speed) = tokens_per_second {
            judge_speed(&mut plan, speed);
        }
        Ok(plan)
    }

    /// Returns a device with the buffer limit that it has in this build.
    fn with_limits(&self, device: &DeviceInfo) -> DeviceInfo {
        let largest_buffer = backend(self.build, device).and_then(|backend| backend.largest_buffer);
        DeviceInfo {
            largest_buffer: largest_buffer.or(device.largest_buffer),
            ..device.clone()
        }
    }

    /// The predicted decode speed. `None` means that a device was not measured.
    fn tokens_per_second(&self, model: &Model, model_plan: &ModelPlan) -> Option<f64> {
        let check = |place| {
            let is_at_place = |gpu: &&&DeviceInfo| hardware::adapter_index(&gpu.id).map(Place::Gpu) == Some(place);
            let gpu = *self.gpus.iter().find(is_at_place)?;
            let check = backend(self.build, gpu)?.check.as_ref()?;
            (check.bytes_per_second > 0.0).then_some(check)
        };
        let seconds = model
            .weights
            .seconds(&model_plan.placement, model.cost.as_ref(), check)?;
        (seconds > 0.0).then_some(1.0 / seconds)
    }

    /// The predicted time of a typical turn: the sum over all layers, each on its device.
    fn turn_seconds(&self, model: &Model, model_plan: &ModelPlan, devices: &[DeviceInfo]) -> f64 {
        let cpu = std::iter::once((Place::Cpu, devices.first()));
        let gpus = self.gpus.iter().filter_map(|gpu| {
            let place = Place::Gpu(hardware::adapter_index(&gpu.id)?);
            Some((place, Some(*gpu)))
        });
        let seconds = cpu.chain(gpus).map(|(place, device)| {
            let placement = &model_plan.placement;
            let layers = (0..placement.layers()).filter(|layer| placement.place(*layer) == place);
            let layers = layers
                .map(|layer| model.bytes.layers[layer].cpu)
                .filter(|bytes| *bytes > 0);
            let layers: Vec<u64> = layers.collect();
            let bytes = layers.iter().sum::<u64>() as f64;
            match (bytes > 0.0, device) {
                (true, Some(device)) => speed(self.build, device).turn_seconds_of(
                    bytes * model.weights_per_byte,
                    bytes,
                    layers.len() as f64,
                ),
                _ => 0.0,
            }
        });
        seconds.sum()
    }
}

/// The CPU, and a hypothetical GPU with this many bytes.
fn assumed_gpu(bytes: u64) -> Vec<DeviceInfo> {
    let mut devices = hardware::devices_for(Some(CPU));
    devices.push(DeviceInfo {
        id: "gpu0".to_owned(),
        kind: "discrete".to_owned(),
        name: "A hypothetical GPU".to_owned(),
        memory_total: Some(bytes),
        memory_free: Some(bytes),
        usable: true,
        ..DeviceInfo::default()
    });
    devices
}

#[cfg(test)]
mod tests {
    use super::super::tests::{device, fixture};
    use super::*;
    use hearth_protocol::Mismatch;

    const GIB: u64 = 1 << 30;

    /// A GPU with these builds, each with its speed in bytes per second. A negative speed means a
    /// mismatch.
    fn gpu(id: &str, free: u64, builds: &[(&str, f64)]) -> DeviceInfo {
        let backends = builds.iter().map(|(build, speed)| BackendOption {
            build: (*build).to_owned(),
            check: Some(DeviceCheck {
                mismatch: (*speed < 0.0).then(|| Mismatch::Detail {
                    detail: "Wrong.".to_owned(),
                }),
                bytes_per_second: *speed,
                macs_per_second: *speed * 10.0,
                ..DeviceCheck::default()
            }),
            ..BackendOption::default()
        });
        let mut backends: Vec<BackendOption> = backends.collect();
        // As `hardware::devices` sorts them.
        backends.sort_by(|a, b| {
            let key = |backend: &BackendOption| backend.check.clone().map(|check| check.turn_seconds());
            a.mismatch()
                .is_some()
                .cmp(&b.mismatch().is_some())
                .then(key(a).partial_cmp(&key(b)).expect("numbers"))
        });
        DeviceInfo {
            backends,
            ..device(id, "discrete", free)
        }
    }

    fn cpu(speed: f64) -> DeviceInfo {
        let backends = gpu("cpu", 0, &[("portable", speed)]).backends;
        DeviceInfo {
            backends,
            ..device("cpu", "cpu", 4 * GIB)
        }
    }

    /// The part of a plan that the tests compare.
    #[derive(Debug, PartialEq)]
    struct Choice {
        build: String,
        device: String,
        gpu_layers: u32,
    }

    fn chosen(request: &PlanRequest, devices: &[DeviceInfo]) -> Result<Choice, Problem> {
        let (bytes, config) = fixture("llama.gguf");
        let model = Model {
            bytes: &bytes,
            weights: DecodeWeights::default(),
            cost: None,
            draft: None,
            config: &config,
            weights_per_byte: 1.0,
        };
        let request = PlanRequest {
            context: Some(64),
            ..request.clone()
        };
        best_plan(&model, &request, devices).map(|plan| Choice {
            build: plan.build,
            device: plan.device,
            gpu_layers: plan.gpu_layers,
        })
    }

    #[test]
    fn a_second_card_of_another_make_does_not_slow_the_first() {
        let (_, config) = fixture("llama.gguf");
        let all = config.layers() as u32;
        let devices = [
            cpu(1e9),
            gpu("gpu0", GIB, &[("portable", 4e9), ("cuda", 9e9)]),
            gpu("gpu1", GIB, &[("portable", 2e9)]),
        ];
        let auto = PlanRequest::default();
        let choice = |build: &str, device: &str, gpu_layers| {
            Ok(Choice {
                build: build.to_owned(),
                device: device.to_owned(),
                gpu_layers,
            })
        };
        assert_eq!(chosen(&auto, &devices), choice("cuda", "gpu0", all));
        // The memory of the first card is full, so the second one is used, in the build that it
        // has.
        let mut full = devices.clone();
        full[1].memory_free = Some(0);
        assert_eq!(chosen(&auto, &full), choice("portable", "gpu1", all));
        let slow = [cpu(8e9), full[1].clone(), full[2].clone()];
        assert_eq!(chosen(&auto, &slow), choice("portable", "cpu", 0), "the CPU is faster");
        let portable = PlanRequest {
            build: Some("portable".to_owned()),
            ..auto.clone()
        };
        assert_eq!(chosen(&portable, &devices), choice("portable", "gpu0", all));
        let named = PlanRequest {
            device: Some("gpu1".to_owned()),
            ..auto.clone()
        };
        assert_eq!(chosen(&named, &devices), choice("portable", "gpu1", all));
        for both in ["gpu0,gpu1", "gpu0, gpu1", "gpu0, gpu1, gpu0"] {
            let both = PlanRequest {
                device: Some(both.to_owned()),
                ..auto.clone()
            };
            assert_eq!(chosen(&both, &devices), choice("portable", "gpu0,gpu1", all));
        }
        for gpu_layers in [GpuLayers::Count(0), GpuLayers::Auto] {
            let request = PlanRequest {
                gpu_layers,
                device: (gpu_layers == GpuLayers::Auto).then(|| CPU.to_owned()),
                ..auto.clone()
            };
            assert_eq!(chosen(&request, &devices), choice("portable", "cpu", 0));
        }
    }

    /// Launching kernels for a layer can take longer than computing it on the CPU.
    #[test]
    fn a_small_model_stays_on_the_cpu_if_layers_take_long_on_the_gpu() {
        let (_, config) = fixture("llama.gguf");
        let on_gpu = |layer_seconds| {
            let mut gpu = gpu("gpu0", GIB, &[("cuda", 9e9)]);
            gpu.backends[0].check.as_mut().expect("a check").layer_seconds = layer_seconds;
            chosen(&PlanRequest::default(), &[cpu(1e9), gpu])
                .expect("a plan")
                .gpu_layers
        };
        assert_eq!(on_gpu(0.0), config.layers() as u32);
        assert_eq!(on_gpu(1.0), 0);
    }

    #[test]
    fn a_build_with_a_mismatch_is_refused_with_the_reason() {
        let devices = [cpu(1e9), gpu("gpu0", GIB, &[("portable", 4e9), ("cuda", -9e9)])];
        let request = |build: Option<&str>, device: Option<&str>| PlanRequest {
            build: build.map(str::to_owned),
            device: device.map(str::to_owned),
            ..PlanRequest::default()
        };
        assert_eq!(
            chosen(&request(None, None), &devices).expect("a plan").build,
            "portable"
        );
        let refused = chosen(&request(Some("cuda"), None), &devices).expect_err("it is wrong");
        assert!(refused.to_string().contains("Wrong."), "{refused}");
        for (device, message) in [
            ("gpu7", "\u{201c}gpu7\u{201d}"),
            ("gpu0, ", "\u{201c}\u{201d}"),
            ("", "\u{201c}\u{201d}"),
            ("cpu, gpu0", "name only GPUs"),
        ] {
            let problem = chosen(&request(None, Some(device)), &devices).expect_err("a refusal");
            assert_eq!(problem.code, ProblemCode::NoDevice);
            assert!(problem.to_string().contains(message), "{problem}");
        }
    }

    #[test]
    fn of_many_gpus_the_fastest_are_combined() {
        let gpus: Vec<DeviceInfo> = (0..6)
            .map(|index| gpu(&format!("gpu{index}"), GIB, &[("portable", f64::from(index + 1))]))
            .collect();
        let ids = |sets: Vec<Vec<&DeviceInfo>>| -> Vec<String> {
            let join = |set: Vec<&DeviceInfo>| set.iter().map(|gpu| &gpu.id[3..]).collect::<String>();
            sets.into_iter().map(join).collect()
        };
        let sets_of = |count: usize| combinations(gpus[..count].iter().collect(), "portable");
        assert_eq!(ids(sets_of(3)), ["0", "1", "2", "01", "02", "12", "012"]);
        assert_eq!(ids(sets_of(5)), ["4", "43", "432", "4321", "43210"]);
    }
}
