//! Plans in which each layer takes 1000 bytes, each token of the context one, and a draft model
//! 500. A model whose name contains `big` fits only if nothing else is reserved; a requested build
//! is a copy of this program.

use super::{fail, send};
use hearth_protocol::{
    Event, GpuLayers, LoadRequest, Notice, Plan, PlanRequest, PlannedDevice, ProblemCode, RequestId, Verdict,
};
use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// Layers of every model.
pub const LAYERS: u32 = 31;

/// Number of layers on the GPU, in which ten fit.
pub fn count_gpu_layers(layers: GpuLayers) -> u32 {
    match layers {
        GpuLayers::Auto => 10,
        GpuLayers::All => LAYERS,
        GpuLayers::Count(count) => count.min(LAYERS),
    }
}

/// The plan of a request.
pub fn plan(request: &PlanRequest) -> Plan {
    let gpu_layers = count_gpu_layers(request.gpu_layers);
    let is_crowded = request.path.to_string_lossy().contains("big") && !request.reserved.is_empty();
    let fits = gpu_layers <= 10 && !is_crowded;
    let context = request.context.unwrap_or(LoadRequest::DEFAULT_CONTEXT);
    let device = |id: &str, layers: u32, fits| PlannedDevice {
        id: id.to_owned(),
        identity: id.to_owned(),
        name: format!("The {id}"),
        weights: u64::from(layers) * 1000,
        kv: u64::from(context),
        snapshots: 0,
        draft: if request.draft.path().is_some() { 500 } else { 0 },
        compute: 10,
        margin: 100,
        total: Some(1 << 30),
        free: Some(1 << 29),
        layers: (0..layers).map(|layer| format!("blk.{layer}")).collect(),
        fits,
    };
    Plan {
        fits,
        verdict: if fits { Verdict::Fits } else { Verdict::WontFit },
        notices: vec![Notice::Detail {
            detail: format!("{gpu_layers} of {LAYERS} layers on the GPU."),
        }],
        context,
        context_fits: 16384,
        gpu_layers,
        layers_total: LAYERS,
        layers_fit: 10,
        kv: request.kv,
        devices: vec![
            device("cpu", LAYERS - gpu_layers, true),
            device("gpu0", gpu_layers, fits),
        ],
        build: request.build.clone().unwrap_or_else(|| "portable".to_owned()),
        program: request.build.as_ref().map(|_| copy_program()),
        device: request.device.clone().unwrap_or_else(|| "gpu0".to_owned()),
        turn_seconds: None,
        tokens_per_second: None,
    }
}

/// Answers with a plan, or a failure if the model is gone or its name contains `invalid`.
pub fn answer_plan(id: RequestId, request: &PlanRequest) {
    if !request.path.exists() {
        return fail(id, ProblemCode::FileUnreadable, "The model's file is gone.");
    }
    if request.path.to_string_lossy().contains("invalid") {
        return fail(id, ProblemCode::FileInvalid, "The file is not a model.");
    }
    send(id, Event::Planned(plan(request)));
}

/// The beginning of the name of a copy.
const COPY_PREFIX: &str = "fake-worker-copy";

/// Copies this program under another name.
fn copy_program() -> PathBuf {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let name = format!(
        "{COPY_PREFIX}-{}-{number}{}",
        std::process::id(),
        std::env::consts::EXE_SUFFIX
    );
    let copy = std::env::temp_dir().join(name);
    std::fs::copy(std::env::current_exe().expect("a program"), &copy).expect("a copy");
    copy
}

/// Whether this program is a copy, which removes itself where the system allows that.
pub fn is_copy() -> bool {
    static IS_COPY: OnceLock<bool> = OnceLock::new();
    *IS_COPY.get_or_init(|| {
        let program = PathBuf::from(std::env::args_os().next().unwrap_or_default());
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let is_copy = name.starts_with(COPY_PREFIX);
        if is_copy {
            let _ = std::fs::remove_file(&program);
        }
        is_copy
    })
}
