//! Methods of [`App`] for the hardware: devices, plans and measurements.

use crate::{
    App,
    chat::Command,
    model_lookup,
    store::measurement,
    wire::{Device, LoadSettings, Measurement, Plan, Problem},
};

/// Most measurements in the list.
const MAX_MEASUREMENTS: u32 = 20;

impl App {
    /// The devices, with their current state. Starts a worker if there is none.
    pub async fn devices(&self) -> Result<Vec<Device>, Problem> {
        self.shared.host.devices().await
    }

    /// Runs the device check, which compares a device's results with the CPU's and measures its
    /// speed, in every build of Hearth that can use it. Returns all devices. May take minutes.
    /// Starts a worker if there is none.
    pub async fn check_device(&self, device: String) -> Result<Vec<Device>, Problem> {
        self.shared.host.check(device).await
    }

    /// Plans a model's placement. A newer request for the same model replaces an unsent one, which
    /// fails with [`ProblemCode::Superseded`](crate::wire::ProblemCode::Superseded). Starts a
    /// worker if there is none.
    pub async fn plan(&self, model: String, load_settings: LoadSettings) -> Result<Plan, Problem> {
        // Lookups run one at a time, so that requests reach the host in the order of the calls.
        let guard = self.shared.planning.lock().await;
        let request = self.shared.blocking(move |shared| {
            let model = model_lookup::readable(shared, &model)?;
            let (draft, _) = model_lookup::draft(shared, &load_settings.draft, &model)?;
            Ok(load_settings.plan(model.path, draft))
        });
        let request = request.await?;
        drop(guard);
        self.shared.host.plan(request).await
    }

    /// Measures the loaded model's prefill and decode speed and saves the result. Progress arrives
    /// as events. A new answer cancels the measurement.
    ///
    /// # Errors
    /// An answer is being generated.
    pub async fn measure(&self) -> Result<Measurement, Problem> {
        self.request_chat(Command::Measure).await?
    }

    /// Cancels the measurement; nothing is saved.
    pub async fn stop_measuring(&self) -> Result<(), Problem> {
        self.send_chat(Command::StopMeasuring)
    }

    /// Measurements, newest first: the last one per model, device, number of layers, KV cache type
    /// and number of threads.
    pub async fn measurements(&self) -> Result<Vec<Measurement>, Problem> {
        self.shared
            .blocking(|shared| {
                let rows = shared.store.read(|t| measurement::list(t, MAX_MEASUREMENTS))?;
                Ok(rows.into_iter().map(Measurement::from).collect())
            })
            .await
    }
}
