//! What a person can do with the machine: look at it, plan for it, measure it.

use crate::{
    App,
    chat::Command,
    store::measurement,
    wire::{Device, Measurement, Plan, Problem, WhatIf},
};

/// As many measurements as a page shows.
const SHOWN: u32 = 20;

impl App {
    /// The devices a model can run on, as they are now. Starts a worker if there is none.
    pub async fn devices(&self) -> Result<Vec<Device>, Problem> {
        self.ask(Command::Devices).await?
    }

    /// Where a model's bytes would go if it were loaded like this. A newer plan for the same model takes the place of one
    /// that the worker was not asked yet, which ends with the code `superseded`. Starts a worker if there is none.
    pub async fn plan(&self, model: String, what_if: WhatIf) -> Result<Plan, Problem> {
        self.ask(|reply| Command::Plan { model, what_if, reply }).await?
    }

    /// Measures how fast the loaded model is, and keeps that. Refused while an answer is being written; an answer that is
    /// asked for meanwhile goes first, and ends it. How far it is comes through events.
    pub async fn measure(&self) -> Result<Measurement, Problem> {
        self.ask(Command::Measure).await?
    }

    /// Ends a measurement; nothing is kept of it.
    pub async fn stop_measuring(&self) -> Result<(), Problem> {
        self.tell(Command::StopMeasuring)
    }

    /// What was measured on this machine, newest first: the last result of each model, device, number of layers and type
    /// of cache.
    pub async fn measurements(&self) -> Result<Vec<Measurement>, Problem> {
        self.shared
            .blocking(|shared| {
                let rows = shared.store.read(|t| measurement::list(t, SHOWN))?;
                Ok(rows.into_iter().map(Measurement::from).collect())
            })
            .await
    }
}
