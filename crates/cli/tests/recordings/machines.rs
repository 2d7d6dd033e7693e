//! The fake host's machines, and the engine's ranking of builds by device checks.

use hearth_engine::hardware::{CPU, Gpu, GpuBackend, Kind, rank, with_reasons};
use hearth_protocol::{BackendOption, DeviceCheck, DeviceInfo, DeviceStatus, Mismatch, ProcessFailure};
use serde::Serialize;
use std::collections::BTreeMap;

fn bytes(gigabytes: f64) -> u64 {
    (gigabytes * 1e9).round() as u64
}

/// A machine of the fake host.
pub struct Machine {
    /// Its name in the recordings.
    pub name: &'static str,
    /// Its devices, the CPU first.
    pub devices: Vec<Device>,
}

impl Machine {
    /// Its devices with the engine's reasons. The check of a GPU checks the CPU, too.
    fn recorded(self) -> Vec<Recorded> {
        let cpu = self.devices[0].clone();
        let reasoned = |device: DeviceInfo, cpu: &DeviceInfo| {
            if device.id == CPU {
                device
            } else {
                with_reasons(device, cpu)
            }
        };
        let recorded = |device: Device| Recorded {
            initially_checked: device.initially,
            unchecked: reasoned(device.unchecked, &cpu.unchecked),
            checked: device
                .checked
                .map(|checked| reasoned(checked, cpu.checked.as_ref().unwrap_or(&cpu.unchecked))),
        };
        self.devices.into_iter().map(recorded).collect()
    }
}

/// A device of a machine.
#[derive(Clone)]
pub struct Device {
    /// Before its check.
    pub unchecked: DeviceInfo,
    /// After its check. `None` means that no build can check it.
    pub checked: Option<DeviceInfo>,
    /// Whether it was checked when the window opens.
    initially: bool,
}

impl Device {
    fn initially_checked(mut self) -> Self {
        self.initially = true;
        self
    }
}

fn passed(bytes_per_second: f64, macs_per_second: f64) -> DeviceCheck {
    DeviceCheck {
        bytes_per_second,
        macs_per_second,
        ..DeviceCheck::default()
    }
}

fn failed(mismatch: Mismatch) -> DeviceCheck {
    DeviceCheck {
        mismatch: Some(mismatch),
        ..DeviceCheck::default()
    }
}

fn cpu(name: &str, instructions: &str, cores: u32) -> Device {
    let with = |check| DeviceInfo {
        id: CPU.to_owned(),
        identity: CPU.to_owned(),
        kind: CPU.to_owned(),
        name: name.to_owned(),
        backend: CPU.to_owned(),
        memory_total: Some(bytes(34.36)),
        memory_free: Some(bytes(12.24)),
        usable: true,
        status: DeviceStatus::Cpu {
            cores,
            instructions: instructions.to_owned(),
        },
        load: Some(0.12),
        cores: Some(cores),
        performance_cores: Some(8),
        backend_names: vec![CPU.to_owned()],
        backends: vec![BackendOption {
            build: "portable".to_owned(),
            backend: CPU.to_owned(),
            check,
            ..BackendOption::default()
        }],
        ..DeviceInfo::default()
    };
    Device {
        unchecked: with(None),
        checked: Some(with(Some(passed(61.3e9, 0.84e12)))),
        initially: false,
    }
}

/// A GPU with its builds, their backends and the results of their checks.
fn gpu(about: Gpu, builds: &[(&str, &str, DeviceCheck)]) -> Device {
    let with = |checked: bool| {
        let mut gpu = about.clone();
        gpu.api = gpu.api.or_else(|| Some("Vulkan 1.4.305".to_owned()));
        for (build, backend, check) in builds {
            if !gpu.backend_names.iter().any(|name| name == backend) {
                gpu.backend_names.push((*backend).to_owned());
            }
            gpu.backends.push(GpuBackend {
                build: (*build).to_owned(),
                backend: (*backend).to_owned(),
                check: checked.then(|| check.clone()),
                ..GpuBackend::default()
            });
        }
        rank(&mut gpu, "portable");
        gpu.info()
    };
    Device {
        unchecked: with(false),
        checked: (!builds.is_empty()).then(|| with(true)),
        initially: false,
    }
}

/// What the probe found out about a GPU; memory in gigabytes.
fn about(id: &str, identity: &str, kind: Kind, name: &str, driver: &str, [total, free]: [f64; 2]) -> Gpu {
    Gpu {
        id: id.to_owned(),
        identity: identity.to_owned(),
        kind,
        name: name.to_owned(),
        driver: Some(driver.to_owned()),
        memory_total: Some(bytes(total)),
        memory_free: Some(bytes(free)),
        ..Gpu::default()
    }
}

/// An NVIDIA card with this many gigabytes free.
fn geforce(free: f64, load: f32) -> Device {
    let name = "NVIDIA GeForce RTX 4070";
    let actual = about(
        "gpu0",
        "0000:01:00.0",
        Kind::Discrete,
        name,
        "NVIDIA 570.86.16",
        [12.88, free],
    );
    let actual = Gpu {
        api: Some("Vulkan 1.4.303".to_owned()),
        load: Some(load),
        ..actual
    };
    let builds = [
        ("portable", "vulkan", passed(352e9, 4.1e12)),
        ("vulkan", "vulkan", passed(431e9, 18.2e12)),
        ("cuda", "cuda", passed(447e9, 24.6e12)),
    ];
    gpu(actual, &builds).initially_checked()
}

fn radeon() -> Device {
    let actual = about(
        "gpu0",
        "0000:0a:00.0",
        Kind::Discrete,
        "AMD Radeon RX 7800 XT",
        "Mesa 25.0.7",
        [17.16, 15.9],
    );
    let mismatch = failed(Mismatch::Elements {
        case: "llama, KV cache f16".to_owned(),
        output: "logits".to_owned(),
        wrong: 49,
        elements: 128,
        row: 0,
        column: 17,
        actual: "0.412".to_owned(),
        expected: "0.667".to_owned(),
    });
    let builds = [
        ("portable", "vulkan", passed(487e9, 5.2e12)),
        ("vulkan", "vulkan", mismatch),
        ("rocm", "rocm", passed(561e9, 27.4e12)),
    ];
    gpu(
        Gpu {
            load: Some(0.03),
            ..actual
        },
        &builds,
    )
}

fn integrated() -> Device {
    let name = "Intel UHD Graphics 770";
    let actual = about(
        "gpu1",
        "0000:00:02.0",
        Kind::Integrated,
        name,
        "Mesa 25.0.7",
        [34.36, 12.24],
    );
    let check = passed(52.8e9, 0.47e12);
    gpu(
        Gpu {
            load: Some(0.02),
            ..actual
        },
        &[("portable", "vulkan", check)],
    )
}

/// A software renderer, which not every version of its driver lets Hearth use.
fn software(usable: bool) -> Device {
    let actual = about(
        "gpu0",
        "llvmpipe",
        Kind::Software,
        "llvmpipe",
        "Mesa 25.0.7",
        [34.36, 12.24],
    );
    let status = DeviceStatus::Software;
    let builds = [("portable", "vulkan", passed(2.4e9, 3.1e9))];
    gpu(Gpu { status, ..actual }, if usable { &builds } else { &[] })
}

fn miscomputing() -> Device {
    let name = "AMD Radeon RX 6600";
    let actual = about(
        "gpu0",
        "0000:03:00.0",
        Kind::Discrete,
        name,
        "AMD 31.0.12027",
        [8.59, 7.8],
    );
    let check = failed(Mismatch::Losses {
        percent: "12.4".to_owned(),
    });
    gpu(
        Gpu {
            load: Some(0.01),
            ..actual
        },
        &[("portable", "vulkan", check)],
    )
    .initially_checked()
}

fn crashed() -> Device {
    let name = "AMD Radeon RX 6600";
    let mut actual = about(
        "gpu0",
        "0000:03:00.0",
        Kind::Discrete,
        name,
        "AMD 31.0.12027",
        [8.59, 7.8],
    );
    actual.memory_free = None;
    let failure = ProcessFailure::Crashed {
        detail: "signal 11".to_owned(),
    };
    actual.status = DeviceStatus::Mismatch {
        mismatch: Mismatch::Process { failure },
    };
    gpu(actual, &[])
}

/// All machines.
pub fn all() -> Vec<Machine> {
    let ryzen = || cpu("AMD Ryzen 7 7840U", "AVX-512 with VNNI and BF16", 8);
    let intel = || cpu("Intel Core i7-13700K", "AVX2 with VNNI", 16).initially_checked();
    let machine = |name, devices: &[Device]| Machine {
        name,
        devices: devices.to_vec(),
    };
    vec![
        machine("default", &[ryzen(), software(false)]),
        machine("no-gpu", &[ryzen()]),
        machine("software-gpu", &[ryzen(), software(true)]),
        machine("two-gpus", &[intel(), geforce(11.4, 0.07), integrated()]),
        machine("unchecked-gpu", &[ryzen(), radeon()]),
        machine("wrong-gpu", &[ryzen().initially_checked(), miscomputing()]),
        machine("too-big", &[intel(), geforce(4.1, 0.64)]),
        machine("driver-crashed", &[ryzen(), crashed()]),
    ]
}

/// A device as the window sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    initially_checked: bool,
    unchecked: DeviceInfo,
    checked: Option<DeviceInfo>,
}

/// The machines as JSON.
pub fn recording() -> String {
    let all = all().into_iter();
    let all = all.map(|machine| (machine.name, machine.recorded()));
    let all: BTreeMap<&str, Vec<Recorded>> = all.collect();
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}
