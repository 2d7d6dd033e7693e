//! `hearth devices`: lists the devices, after an optional check.

use super::print_protocol;
use crate::args::Devices;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::say;
use crate::terminal::stdout;
use hearth_engine::hardware::{self, FormatPrefetch};
use hearth_formats::byte_size;
use hearth_protocol::{BackendOption, DeviceCheck, DeviceInfo};
use serde::Serialize;
use std::io::Write;

/// The JSON output.
#[derive(Serialize)]
struct Report {
    devices: Vec<DeviceInfo>,
    prefetch: Vec<FormatPrefetch>,
}

/// Runs the requested check and prints the devices.
pub fn run(args: &Devices) -> Result<(), Failure> {
    if let Some(device) = &args.check {
        check(device)?;
    }
    let report = Report {
        devices: hardware::devices(),
        prefetch: hardware::prefetches(),
    };
    if args.output.json {
        return print_protocol(&report);
    }
    let mut out = stdout();
    for device in &report.devices {
        let DeviceInfo { id, name, .. } = device;
        let suffix = if device.usable { "" } else { " (cannot be used)" };
        writeln!(out, "{id}  {name}{suffix}")?;
        if device.identity != device.id {
            writeln!(out, "     {}", device.identity)?;
        }
        if let (Some(total), Some(free)) = (device.memory_total, device.memory_free) {
            writeln!(out, "     {} of memory, {} free", byte_size(total), byte_size(free))?;
        }
        writeln!(out, "     {}", device.status)?;
        if let Some(problem) = &device.driver_problem {
            writeln!(out, "     {problem}")?;
        }
        for option in &device.backends {
            writeln!(out, "     {}: {}", option.build, check_result(option))?;
        }
        if device.id == hardware::CPU {
            for FormatPrefetch {
                format,
                threads,
                choice,
                bytes_per_second,
            } in &report.prefetch
            {
                let (plural, speed) = (if *threads == 1 { "" } else { "s" }, scaled(*bytes_per_second));
                writeln!(
                    out,
                    "     {format}, {threads} thread{plural}: prefetch {choice}, {speed}B/s of weights"
                )?;
            }
        }
    }
    Ok(())
}

/// Checks one device; an empty ID means every GPU that is not a software one.
fn check(device: &str) -> Result<(), Failure> {
    let devices = match device {
        "" => {
            let gpus = hardware::gpus()
                .into_iter()
                .filter(|gpu| gpu.kind != hardware::Kind::Software);
            gpus.map(|gpu| gpu.id).collect()
        }
        id => vec![id.to_owned()],
    };
    if devices.is_empty() {
        say!("note: there is no GPU to check; software GPUs must be named.");
    }
    let mut progress = Progress::new();
    for device in devices {
        progress.show(0.0, format!("checking {device}"));
        hardware::check(&device)?;
    }
    Ok(())
}

/// A description of the device check of a build.
fn check_result(option: &BackendOption) -> String {
    match &option.check {
        None => "not checked yet".to_owned(),
        Some(DeviceCheck {
            mismatch: Some(mismatch),
            ..
        }) => mismatch.to_string(),
        Some(check) => format!(
            "decode at {}B/s of weights, {:.3} ms for each layer and {:.3} ms for each token; prefill at {}MAC/s; \
             checked in {:.0} s{}",
            scaled(check.bytes_per_second),
            1e3 * check.layer_seconds,
            1e3 * check.step_seconds,
            scaled(check.macs_per_second),
            check.seconds,
            match check.kernels_launched {
                0 => String::new(),
                launched => format!(" with {launched} kernels, {} of them distinct", check.kernels_compiled),
            }
        ),
    }
}

/// A number with three decimals and an SI prefix.
fn scaled(number: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M")];
    let (unit, prefix) = units
        .into_iter()
        .find(|(unit, _)| number >= *unit)
        .unwrap_or((1e3, "k"));
    format!("{:.3} {prefix}", number / unit)
}

#[cfg(test)]
mod tests {
    use super::super::with_snake_case_keys;
    use super::*;

    #[test]
    fn the_json_has_the_documented_fields() {
        let devices = hardware::devices();
        let prefetch = hardware::prefetches();
        let report = with_snake_case_keys(serde_json::to_value(Report { devices, prefetch }).unwrap());
        let cpu = &report["devices"][0];
        for field in [
            "id",
            "kind",
            "name",
            "backend",
            "memory_total",
            "memory_free",
            "usable",
            "status",
        ] {
            assert!(!cpu[field].is_null(), "{field}");
        }
    }
}
