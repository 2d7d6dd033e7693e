//! The engine's memory plans of the fake host's models on its machines.
//!
//! The file holds each distinct plan once:
//!
//! - `devices`: `[id, identity, name, margin, total, free]` of the planned devices;
//! - `reasons`: `[verdict, notices]`;
//! - `plans`: `[fits, reason, context, contextFits, gpuLayers, layersTotal, layersFit, kv,
//!   devices]`, where a device is `[device, weights, kv, compute, fits, layers]`; reason and device
//!   are indices of the two above, and layers are written like `token_embd 0-14 output`;
//! - `loads`: plans of one model on one selection of devices, by KV type and context (`auto` or
//!   tokens): indices of `plans` for automatic layers, for all, and for 0, 1, 2 … layers; or one
//!   index if all are equal;
//! - `machines`: by machine, by the ids of its checked devices (separated by spaces), by identity
//!   of the chosen device (empty means automatic), by model: an index of `loads`, or the problem.

use crate::machines::{self, Machine};
use crate::models::{self, Model};
use hearth_app::wire;
use hearth_engine::plan::{ModelBytes, PlanOptions, compute_plan};
use hearth_llm::Config;
use hearth_protocol::{DeviceInfo, GpuLayers, KvType, Problem};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Distinct values, in order of their first use.
#[derive(Default)]
struct Table {
    rows: Vec<String>,
    index_by_row: HashMap<String, usize>,
}

impl Table {
    fn index(&mut self, value: &Value) -> usize {
        let row = value.to_string();
        *self.index_by_row.entry(row.clone()).or_insert_with(|| {
            self.rows.push(row);
            self.rows.len() - 1
        })
    }

    /// A JSON array, one row a line.
    fn json(&self) -> String {
        format!("[\n{}\n]", self.rows.join(",\n"))
    }
}

#[derive(Default)]
struct Recorder {
    devices: Table,
    reasons: Table,
    plans: Table,
    loads: Table,
}

/// A run of consecutive layers as `0-14`, other names as they are.
fn layers(names: &[String]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut run: Option<[u32; 2]> = None;
    let text = |[first, last]: [u32; 2]| format!("{first}-{last}");
    for name in names {
        match (
            name.strip_prefix("blk.").and_then(|number| number.parse::<u32>().ok()),
            run,
        ) {
            (Some(layer), Some([first, last])) if layer == last + 1 => run = Some([first, layer]),
            (Some(layer), before) => {
                parts.extend(before.map(text));
                run = Some([layer, layer]);
            }
            (None, before) => {
                parts.extend(before.map(text));
                run = None;
                parts.push(name.clone());
            }
        }
    }
    parts.extend(run.map(text));
    parts.join(" ")
}

impl Recorder {
    fn plan(&mut self, plan: &wire::Plan) -> usize {
        let devices: Vec<Value> = plan
            .devices
            .iter()
            .map(|device| {
                let constant = json!([
                    device.id,
                    device.identity,
                    device.name,
                    device.margin,
                    device.total,
                    device.free
                ]);
                let (at, layers) = (self.devices.index(&constant), layers(&device.layers));
                json!([at, device.weights, device.kv, device.compute, device.fits, layers])
            })
            .collect();
        let reason = self.reasons.index(&json!([plan.verdict, plan.notices]));
        let (context, layers) = (plan.context, plan.layers_total);
        self.plans.index(&json!([
            plan.fits,
            reason,
            context,
            plan.context_fits,
            plan.gpu_layers,
            layers,
            plan.layers_fit,
            plan.kv,
            devices
        ]))
    }

    /// The plans of a model on these devices.
    fn load(
        &mut self,
        model: &Model,
        read: &(ModelBytes, Config),
        device: Option<&str>,
        devices: &[DeviceInfo],
    ) -> Result<usize, Problem> {
        let (bytes, config) = read;
        let total = config.layers() as u32;
        let mut by_kv = Map::new();
        for kv in [KvType::F16, KvType::Q8_0] {
            let mut by_context = Map::new();
            for context in [None].into_iter().chain(model.contexts.iter().copied().map(Some)) {
                let counts = (0..=total).map(GpuLayers::Count);
                let mut row = Vec::new();
                for gpu_layers in [GpuLayers::Auto, GpuLayers::All].into_iter().chain(counts) {
                    let device = device.map(str::to_owned);
                    let options = PlanOptions {
                        context,
                        device,
                        gpu_layers,
                        kv,
                        training: None,
                        draft: None,
                    };
                    let plan = compute_plan(bytes, config, &options, devices)?.plan;
                    row.push(self.plan(&plan));
                }
                let equal = row.iter().all(|index| *index == row[0]);
                let context = context.map_or_else(|| "auto".to_owned(), |context| context.to_string());
                by_context.insert(context, if equal { json!(row[0]) } else { json!(row) });
            }
            by_kv.insert(kv.to_string(), Value::Object(by_context));
        }
        Ok(self.loads.index(&Value::Object(by_kv)))
    }

    /// The plans of all models on a machine, for each combination of checked devices.
    fn machine(&mut self, machine: &Machine, read: &[(ModelBytes, Config)]) -> Value {
        let mut by_state = Map::new();
        let checkable: Vec<usize> = (0..machine.devices.len())
            .filter(|at| machine.devices[*at].checked.is_some())
            .collect();
        for set in 0..1usize << checkable.len() {
            let checked = |at: usize| {
                checkable
                    .iter()
                    .position(|other| *other == at)
                    .is_some_and(|bit| set >> bit & 1 == 1)
            };
            let devices: Vec<DeviceInfo> = machine
                .devices
                .iter()
                .enumerate()
                .map(|(at, device)| {
                    let info = device.checked.as_ref().filter(|_| checked(at));
                    info.unwrap_or(&device.unchecked).clone()
                })
                .collect();
            let ids = (0..devices.len())
                .filter(|at| checked(*at))
                .map(|at| devices[at].id.as_str());
            let ids = ids.collect::<Vec<_>>().join(" ");
            let chosen = [None]
                .into_iter()
                .chain(devices.iter().map(|device| Some(device.identity.as_str())));
            let by_device = chosen.map(|device| {
                let models = models::ALL
                    .iter()
                    .zip(read)
                    .filter(|(model, _)| model.is_on(machine.name));
                let by_model = models.map(|(model, read)| {
                    let load = self.load(model, read, device, &devices);
                    let actual = load.map_or_else(|problem| json!(problem), |load| json!(load));
                    (model.name.to_owned(), actual)
                });
                (device.unwrap_or_default().to_owned(), Value::Object(by_model.collect()))
            });
            let by_device = Value::Object(by_device.collect());
            by_state.insert(ids, by_device);
        }
        Value::Object(by_state)
    }
}

/// All plans as JSON.
pub fn recording() -> String {
    let read: Vec<(ModelBytes, Config)> = models::ALL.iter().map(Model::read).collect();
    let mut recorder = Recorder::default();
    let machines = machines::all();
    let machines = machines
        .iter()
        .map(|machine| (machine.name.to_owned(), recorder.machine(machine, &read)));
    let machines = Value::Object(machines.collect());
    let Recorder {
        devices,
        reasons,
        plans,
        loads,
    } = recorder;
    format!(
        "{{\n\"devices\": {},\n\"reasons\": {},\n\"plans\": {},\n\"loads\": {},\n\"machines\": {}\n}}\n",
        devices.json(),
        reasons.json(),
        plans.json(),
        loads.json(),
        serde_json::to_string_pretty(&machines).unwrap()
    )
}
