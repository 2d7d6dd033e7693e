//! `hearth devices`: what models can run on.

use super::{bytes, print_json};
use crate::args::Json;
use crate::failure::Failure;
use hearth_engine::hardware;
use hearth_protocol::DeviceInfo;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Report {
    devices: Vec<DeviceInfo>,
}

/// Lists them.
pub fn run(args: &Json) -> Result<(), Failure> {
    let report = Report {
        devices: hardware::devices(),
    };
    if args.json {
        return print_json(&report);
    }
    let mut out = std::io::stdout().lock();
    for DeviceInfo {
        id,
        name,
        memory_total,
        memory_free,
        usable,
        why,
        ..
    } in &report.devices
    {
        writeln!(out, "{id}  {name}{}", if *usable { "" } else { " (cannot be used)" })?;
        if let (Some(total), Some(free)) = (memory_total, memory_free) {
            writeln!(out, "     {} of memory, {} free", bytes(*total), bytes(*free))?;
        }
        writeln!(out, "     {why}")?;
    }
    Ok(())
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
