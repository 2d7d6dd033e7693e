//! `hearth devices`: what models can run on.

use super::{bytes, print_json};
use crate::args::Devices;
use crate::failure::Failure;
use crate::progress::Progress;
use hearth_engine::hardware;
use hearth_protocol::{DeviceCheck, DeviceInfo, DeviceWay};
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Report {
    devices: Vec<DeviceInfo>,
}

/// Lists them.
pub fn run(args: &Devices) -> Result<(), Failure> {
    if let Some(wanted) = &args.check {
        check(wanted)?;
    }
    let report = Report {
        devices: hardware::devices(),
    };
    if args.output.json {
        return print_json(&report);
    }
    let mut out = std::io::stdout().lock();
    for device in &report.devices {
        let DeviceInfo { id, name, .. } = device;
        let cannot = if device.usable { "" } else { " (cannot be used)" };
        writeln!(out, "{id}  {name}{cannot}")?;
        if device.identity != device.id {
            writeln!(out, "     {}", device.identity)?;
        }
        if let (Some(total), Some(free)) = (device.memory_total, device.memory_free) {
            writeln!(out, "     {} of memory, {} free", bytes(total), bytes(free))?;
        }
        writeln!(out, "     {}", device.why)?;
        for way in &device.ways {
            writeln!(out, "     {}: {}", way.build, found(way))?;
        }
    }
    Ok(())
}

/// Checks one device, or every GPU but those in software.
fn check(wanted: &str) -> Result<(), Failure> {
    let devices = match wanted {
        "" => {
            let gpus = hardware::gpus()
                .into_iter()
                .filter(|gpu| gpu.kind != hardware::Kind::Software);
            gpus.map(|gpu| gpu.id).collect()
        }
        id => vec![id.to_owned()],
    };
    if devices.is_empty() {
        eprintln!("note: there is no GPU to check; one in software has to be named.");
    }
    let mut progress = Progress::new();
    for device in devices {
        progress.show(0.0, &format!("checking {device}"));
        hardware::check(&device)?;
    }
    Ok(())
}

/// What a check found, for a person.
fn found(way: &DeviceWay) -> String {
    match &way.check {
        None => "not checked yet".to_owned(),
        Some(DeviceCheck { wrong: Some(wrong), .. }) => wrong.clone(),
        Some(check) => format!(
            "reads {}B of weights a second while it answers, and {} weights meet a token a second in a prompt; checked in {:.0} s{}",
            scaled(check.bytes_per_second),
            scaled(check.products_per_second),
            check.seconds,
            match check.kernels_launched {
                0 => String::new(),
                launched => format!(" with {launched} kernels, {} of them different", check.kernels_compiled),
            }
        ),
    }
}

/// A number with three digits that count, and the prefix of what it is counted in.
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
    use super::*;

    #[test]
    fn the_json_has_the_fields_that_scripts_read() {
        let report = serde_json::to_value(Report {
            devices: hardware::devices(),
        })
        .unwrap();
        let cpu = &report["devices"][0];
        for field in [
            "id",
            "kind",
            "name",
            "backend",
            "memory_total",
            "memory_free",
            "usable",
            "why",
        ] {
            assert!(!cpu[field].is_null(), "{field}");
        }
    }
}
