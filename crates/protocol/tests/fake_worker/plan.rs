//! Plans in which each layer takes 1000 bytes and each token of the context one.

use super::{fail, say};
use hearth_protocol::{
    Event, GpuLayers, LoadRequest, Plan, PlanRequest, PlannedDevice, ProblemCode, RequestId, Verdict,
};

/// Layers of every model.
pub const LAYERS: u32 = 31;

/// Layers on the GPU, which fits ten.
pub fn placed(layers: GpuLayers) -> u32 {
    match layers {
        GpuLayers::Auto => 10,
        GpuLayers::All => LAYERS,
        GpuLayers::Count(count) => count.min(LAYERS),
    }
}

/// The plan of a request.
pub fn plan(request: &PlanRequest) -> Plan {
    let gpu_layers = placed(request.gpu_layers);
    let fits = gpu_layers <= 10;
    let context = request.context.unwrap_or(LoadRequest::DEFAULT_CONTEXT);
    let device = |id: &str, layers: u32, fits| PlannedDevice {
        id: id.to_owned(),
        identity: id.to_owned(),
        name: format!("The {id}"),
        weights: u64::from(layers) * 1000,
        kv: u64::from(context),
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
        why: format!("{gpu_layers} of {LAYERS} layers on the GPU."),
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
    }
}

/// Answer with a plan, or a failure if the model's name contains `refuse`.
pub fn answer_plan(id: RequestId, request: &PlanRequest) {
    if request.path.to_string_lossy().contains("refuse") {
        return fail(id, ProblemCode::FileInvalid, "The file is not a model.");
    }
    say(id, Event::Planned(plan(request)));
}
