//! Automatic selection of a GPU and of its build, with the reasons.

use hearth_protocol::{AutoSelection, BackendOption, BuildReason, DeviceInfo};

/// Decides whether a GPU is used without being requested. A software renderer is not. If both
/// devices are measured, the GPU has to be faster than the CPU; otherwise it has to be discrete or
/// Apple's.
pub fn selection(gpu: &DeviceInfo, cpu: &DeviceInfo) -> AutoSelection {
    let seconds = |device: &DeviceInfo| Some(device.backends.first()?.check.as_ref()?.turn_seconds());
    let is_faster = seconds(gpu).zip(seconds(cpu)).map(|(gpu, cpu)| gpu < cpu);
    let shares_memory = match gpu.kind.as_str() {
        "discrete" => false,
        "integrated" => gpu.backend != "metal",
        _ => return AutoSelection::Software,
    };
    match is_faster {
        _ if !gpu.usable => AutoSelection::Unusable,
        Some(false) => AutoSelection::SlowerThanCpu,
        None if shares_memory => AutoSelection::SharesMemory,
        _ => AutoSelection::Selected,
    }
}

/// Whether a GPU is used without being requested; see [`selection`].
pub fn is_auto_selected(gpu: &DeviceInfo, cpu: &DeviceInfo) -> bool {
    selection(gpu, cpu) == AutoSelection::Selected
}

/// The reason why the first of a GPU's builds is the automatic choice. The builds are sorted by
/// [`rank`](super::rank). `None` means that no build matches the CPU's results.
pub fn build_reason(builds: &[BackendOption]) -> Option<BuildReason> {
    let mut correct = builds.iter().filter(|option| option.mismatch().is_none());
    let is_measured = correct.next()?.check.is_some();
    let others: Vec<&BackendOption> = correct.collect();
    Some(if others.is_empty() {
        BuildReason::Only
    } else if !is_measured {
        BuildReason::Unmeasured
    } else if others.iter().all(|option| option.check.is_none()) {
        BuildReason::OnlyMeasured
    } else {
        BuildReason::Fastest
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::{DeviceCheck, Mismatch};

    /// A build with this speed. A negative speed means a mismatch.
    fn option(speed: Option<f64>) -> BackendOption {
        BackendOption {
            check: speed.map(|speed| DeviceCheck {
                mismatch: (speed < 0.0).then(|| Mismatch::Detail {
                    detail: "Wrong.".to_owned(),
                }),
                bytes_per_second: speed,
                macs_per_second: speed,
                ..DeviceCheck::default()
            }),
            ..BackendOption::default()
        }
    }

    fn device(kind: &str, speed: Option<f64>) -> DeviceInfo {
        DeviceInfo {
            kind: kind.to_owned(),
            usable: true,
            backends: vec![option(speed)],
            ..DeviceInfo::default()
        }
    }

    #[test]
    fn a_gpu_slower_than_the_cpu_is_not_selected() {
        use AutoSelection::*;
        let cpu = device("cpu", Some(5e9));
        let selections =
            |kind| [None, Some(6e9), Some(5e9), Some(4e9)].map(|speed| selection(&device(kind, speed), &cpu));
        assert_eq!(
            selections("discrete"),
            [Selected, Selected, SlowerThanCpu, SlowerThanCpu]
        );
        assert_eq!(
            selections("integrated"),
            [SharesMemory, Selected, SlowerThanCpu, SlowerThanCpu]
        );
        assert_eq!(selections("software"), [Software; 4]);
    }

    #[test]
    fn apples_gpu_needs_no_measurement_and_an_unusable_one_is_not_selected() {
        let cpu = device("cpu", None);
        let apple = DeviceInfo {
            backend: "metal".to_owned(),
            ..device("integrated", None)
        };
        assert_eq!(selection(&apple, &cpu), AutoSelection::Selected);
        let broken = DeviceInfo {
            usable: false,
            ..device("discrete", Some(9e9))
        };
        assert_eq!(selection(&broken, &cpu), AutoSelection::Unusable);
        assert!(
            is_auto_selected(&device("discrete", Some(1.0)), &cpu),
            "the CPU is not measured"
        );
    }

    #[test]
    fn the_first_build_has_a_reason() {
        use BuildReason::*;
        let reason = |speeds: &[Option<f64>]| {
            let builds: Vec<BackendOption> = speeds.iter().map(|speed| option(*speed)).collect();
            build_reason(&builds)
        };
        assert_eq!(reason(&[]), None);
        assert_eq!(reason(&[Some(-1.0), Some(-1.0)]), None);
        assert_eq!(reason(&[None]), Some(Only));
        assert_eq!(reason(&[Some(9e9), Some(-1.0)]), Some(Only));
        assert_eq!(reason(&[None, None, Some(-1.0)]), Some(Unmeasured));
        assert_eq!(reason(&[Some(9e9), None]), Some(OnlyMeasured));
        assert_eq!(reason(&[Some(9e9), Some(2e9), None]), Some(Fastest));
    }
}
