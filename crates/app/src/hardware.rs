//! What a person can do with the machine: look at it, plan for it, measure it.

use crate::{
    App,
    chat::Command,
    store::measurement,
    wire::{Code, Device, Measurement, Plan, Problem, WhatIf},
};
use std::time::Duration;
use tokio::time::timeout;

/// How long a worker may take to say what there is, or where something would go: it asks drivers, which have a limit of their own.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// As many measurements as a page shows.
const SHOWN: u32 = 20;

impl App {
    /// The devices a model can run on, as they are now. Starts a worker if there is none.
    pub async fn devices(&self) -> Result<Vec<Device>, Problem> {
        in_time(self.ask(Command::Devices)).await?
    }

    /// Compares what a device computes with what the processor does, and measures it, in every build of Hearth that can use it; gives all
    /// devices as they are then. It may take minutes. Starts a worker if there is none.
    pub async fn check_device(&self, device: String) -> Result<Vec<Device>, Problem> {
        self.ask(|reply| Command::Check { device, reply }).await?
    }

    /// Where a model's bytes would go if it were loaded like this. A newer plan for the same model takes the place of one
    /// that the worker was not asked yet, which ends with the code `superseded`. Starts a worker if there is none.
    pub async fn plan(&self, model: String, what_if: WhatIf) -> Result<Plan, Problem> {
        in_time(self.ask(|reply| Command::Plan { model, what_if, reply })).await?
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

    /// What was measured on this machine, newest first: the last result of each model, device, number of layers, type of cache and
    /// number of threads.
    pub async fn measurements(&self) -> Result<Vec<Measurement>, Problem> {
        self.shared
            .blocking(|shared| {
                let rows = shared.store.read(|t| measurement::list(t, SHOWN))?;
                Ok(rows.into_iter().map(Measurement::from).collect())
            })
            .await
    }
}

/// An answer, or that it did not come.
async fn in_time<T>(answer: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    timeout(ANSWERS_WITHIN, answer).await.unwrap_or_else(|_| {
        let message = format!(
            "Hearth's worker did not say within {} seconds what this machine can do. It may be busy; try again.",
            ANSWERS_WITHIN.as_secs()
        );
        Err(Problem {
            code: Code::Busy,
            message,
        })
    })
}
