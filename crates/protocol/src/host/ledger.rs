//! The memory that each worker has planned to use.

use crate::{PlannedDevice, Reservation};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A worker's number in the ledger.
pub(super) type InstanceId = u64;

/// The memory that each worker has planned to use.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    last_id: InstanceId,
    reservations: BTreeMap<InstanceId, (Kind, Reservation)>,
}

/// The purpose of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A model of the pool.
    Model,
    /// A run, which nothing replaces.
    Run,
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a reservation, of no memory yet.
    pub fn open(&self, kind: Kind) -> InstanceId {
        let mut entries = self.entries();
        entries.last_id += 1;
        let id = entries.last_id;
        entries.reservations.insert(id, (kind, Reservation::default()));
        id
    }

    /// Reserves the memory of a plan.
    pub fn reserve(&self, id: InstanceId, devices: Vec<PlannedDevice>) {
        self.change(id, |reservation| reservation.devices = devices);
    }

    /// Sets the process id of a reservation's worker.
    pub fn set_process(&self, id: InstanceId, process: Option<u32>) {
        self.change(id, |reservation| reservation.process = process);
    }

    /// Marks the GPU memory of a reservation as allocated.
    pub fn set_allocated(&self, id: InstanceId) {
        self.change(id, |reservation| reservation.is_allocated = true);
    }

    /// Removes a reservation, whose worker has ended.
    pub fn close(&self, id: InstanceId) {
        self.entries().reservations.remove(&id);
    }

    /// The reservation of a worker.
    pub fn reservation(&self, id: InstanceId) -> Reservation {
        let entries = self.entries();
        let reservation = entries.reservations.get(&id);
        reservation
            .map(|(_, reservation)| reservation.clone())
            .unwrap_or_default()
    }

    /// The reservations of these models, and of all runs.
    pub fn reservations(&self, models: impl Iterator<Item = InstanceId>) -> Vec<Reservation> {
        let models: Vec<InstanceId> = models.collect();
        let entries = self.entries();
        let is_included =
            |(id, (kind, _)): &(&InstanceId, &(Kind, Reservation))| *kind == Kind::Run || models.contains(id);
        let included = entries.reservations.iter().filter(is_included);
        included.map(|(_, (_, reservation))| reservation.clone()).collect()
    }

    fn change(&self, id: InstanceId, change: impl FnOnce(&mut Reservation)) {
        if let Some((_, reservation)) = self.entries().reservations.get_mut(&id) {
            change(reservation);
        }
    }
}
