//! The bug report: hardware, settings, loaded model and plan, as text that the user reads before
//! sending it. It contains no conversation and no path.

use crate::{
    App, model_lookup,
    wire::{Device, LoadSettings, Measurement, ModelInfo, ModelState, Plan, PlannedDevice, Problem, Settings},
};
use hearth_formats::byte_size;
use std::fmt::Write;

/// Most measurements in a report.
const MAX_MEASUREMENTS: usize = 5;

impl App {
    /// The report's text. A part that cannot be determined is replaced by its problem.
    pub async fn report(&self) -> Result<String, Problem> {
        let (devices, state, measurements) = tokio::join!(self.devices(), self.model_state(), self.measurements());
        let settings = self.shared.settings();
        let model = match state.as_ref() {
            Ok(
                ModelState::Ready { model, .. } | ModelState::Loading { model, .. } | ModelState::Failed { model, .. },
            ) => Some(model.clone()),
            _ => {
                self.shared
                    .blocking(|shared| Ok(model_lookup::next(shared)?.map(|model| model.id)))
                    .await?
            }
        };
        let plan = match model {
            Some(model) => {
                let load_settings = LoadSettings::from_settings(&settings, &model);
                Some(self.plan(model, load_settings).await)
            }
            None => None,
        };
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = write(&mut text, &settings, &devices, &state, plan.as_ref(), &measurements);
        Ok(without_home(&text))
    }
}

fn write(
    text: &mut String,
    settings: &Settings,
    devices: &Result<Vec<Device>, Problem>,
    state: &Result<ModelState, Problem>,
    plan: Option<&Result<Plan, Problem>>,
    measurements: &Result<Vec<Measurement>, Problem>,
) -> std::fmt::Result {
    writeln!(text, "Hearth {} on {}", env!("CARGO_PKG_VERSION"), system())?;
    writeln!(text, "\nDevices")?;
    match devices {
        Ok(devices) => devices.iter().try_for_each(|device| write_device(text, device))?,
        Err(problem) => writeln!(text, "- unknown: {problem}")?,
    }
    writeln!(text, "\nSettings")?;
    writeln!(
        text,
        "- chat on {}, training on {}",
        or_auto(settings.device.as_ref()),
        or_auto(settings.training_device.as_ref())
    )?;
    let context = or_auto(settings.context.as_ref());
    let threads = or_auto(settings.threads.as_ref());
    writeln!(
        text,
        "- layers on GPUs {}, KV cache {}, context {context}, threads {threads}",
        settings.gpu_layers, settings.kv
    )?;
    writeln!(text, "\nModel")?;
    match state {
        Ok(ModelState::Ready { info, .. }) => write_model(text, info)?,
        Ok(ModelState::Failed { problem, .. }) | Err(problem) => writeln!(text, "- failed: {problem}")?,
        Ok(ModelState::Loading { stage, .. }) => writeln!(text, "- loading: {stage}")?,
        Ok(ModelState::None) => writeln!(text, "- none loaded")?,
    }
    match plan {
        Some(Ok(plan)) => {
            writeln!(text, "\nPlan")?;
            plan.notices
                .iter()
                .try_for_each(|notice| writeln!(text, "- {notice}"))?;
            writeln!(
                text,
                "- {} of {} layers on GPUs ({} fit), context {} ({} fits), KV cache {}",
                plan.gpu_layers, plan.layers_total, plan.layers_fit, plan.context, plan.context_fits, plan.kv
            )?;
            plan.devices.iter().try_for_each(|device| write_planned(text, device))?;
        }
        Some(Err(problem)) => writeln!(text, "\nPlan\n- none: {problem}")?,
        None => {}
    }
    match measurements {
        Ok(measurements) if measurements.is_empty() => Ok(()),
        Ok(measurements) => {
            writeln!(text, "\nMeasurements")?;
            measurements.iter().take(MAX_MEASUREMENTS).try_for_each(|row| {
                writeln!(
                    text,
                    "- {} on {}, {} of {} layers on GPUs, KV cache {}, {} threads: prefill {:.1} tokens/s, decode \
                     {:.1} tokens/s",
                    row.model_name,
                    row.device,
                    row.gpu_layers,
                    row.layers_total,
                    row.kv,
                    row.threads,
                    row.prompt_tokens_per_second,
                    row.tokens_per_second
                )
            })
        }
        Err(problem) => writeln!(text, "\nMeasurements\n- unknown: {problem}"),
    }
}

fn write_device(text: &mut String, device: &Device) -> std::fmt::Result {
    write!(text, "- {} ({}): {}", device.id, device.kind, device.name)?;
    if !device.backend_names.is_empty() {
        write!(text, ", {}", device.backend_names.join(" or "))?;
    }
    for name in [&device.driver, &device.api].into_iter().flatten() {
        write!(text, ", {name}")?;
    }
    if let Some(cores) = device.cores {
        write!(
            text,
            ", {cores} cores ({} fast)",
            device.performance_cores.unwrap_or(cores)
        )?;
    }
    if let Some(total) = device.memory_total {
        write!(text, ", {}", byte_size(total))?;
        if let Some(free) = device.memory_free {
            write!(text, " ({} free)", byte_size(free))?;
        }
    }
    write!(text, ". {}", device.status)?;
    if let Some(problem) = &device.driver_problem {
        write!(text, " {problem}")?;
    }
    writeln!(text)
}

fn write_model(text: &mut String, info: &ModelInfo) -> std::fmt::Result {
    writeln!(
        text,
        "- {} ({}, {}, {}), on {} with {} threads, {} of {} layers on GPUs, context {}, KV cache {}, draft {}",
        info.name,
        info.architecture,
        info.quantization,
        byte_size(info.file_size),
        info.device,
        info.threads,
        info.gpu_layers,
        info.layers_total,
        info.context,
        info.kv,
        info.draft.map_or_else(|| "none".to_owned(), |draft| draft.to_string())
    )?;
    info.notices
        .iter()
        .try_for_each(|notice| writeln!(text, "- {notice}"))?;
    info.placement.iter().try_for_each(|device| write_planned(text, device))
}

/// Writes the planned memory of a device.
fn write_planned(text: &mut String, device: &PlannedDevice) -> std::fmt::Result {
    writeln!(
        text,
        "- {}: weights {}, KV cache {} ({} of it snapshots), draft {}, compute {}, margin {}; {} free of {}{}",
        device.id,
        byte_size(device.weights),
        byte_size(device.kv),
        byte_size(device.snapshots),
        byte_size(device.draft),
        byte_size(device.compute),
        byte_size(device.margin),
        device.free.map_or_else(|| "unknown".to_owned(), byte_size),
        device.total.map_or_else(|| "unknown".to_owned(), byte_size),
        if device.fits { "" } else { " - does not fit" }
    )
}

/// Name and version of the operating system, and the CPU architecture.
fn system() -> String {
    let version = sysinfo::System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned());
    format!("{version} ({})", std::env::consts::ARCH)
}

/// A setting. `None` is automatic.
fn or_auto(setting: Option<&impl ToString>) -> String {
    setting.map_or_else(|| "auto".to_owned(), ToString::to_string)
}

/// Replaces the home folder by `~`: paths in sentences would reveal the user's name.
fn without_home(text: &str) -> String {
    match directories::BaseDirs::new().map(|dirs| dirs.home_dir().display().to_string()) {
        Some(home) if home.len() > 1 => text.replace(&home, "~"),
        _ => text.to_owned(),
    }
}
