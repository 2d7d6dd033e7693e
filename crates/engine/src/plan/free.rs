//! The memory that is free for a model, without the reservations of other processes of Hearth.

use crate::memory;
use hearth_protocol::{DeviceInfo, PlanRequest, PlannedDevice, Reservation};

/// Adjusts the free memory of the devices. Adds the memory of models that will be replaced, and
/// subtracts the memory that other processes have reserved and do not use yet.
pub fn account_for_models(devices: &mut [DeviceInfo], request: &PlanRequest) {
    let cards = cards(devices);
    let in_main_memory = |device: &&PlannedDevice| !cards.contains(&device.id);
    // Bytes of a reservation in main memory that its process uses already.
    let used = |reservation: &Reservation| {
        let planned = total(reservation.devices.iter().filter(in_main_memory));
        let private = reservation.process.and_then(memory::private).unwrap_or(0);
        private.min(planned)
    };
    let unused =
        |reservation: &Reservation| total(reservation.devices.iter().filter(in_main_memory)) - used(reservation);
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
    let main_freed = sum(&mut request.replaced.iter().map(used));
    let main_reserved = sum(&mut request.reserved.iter().map(unused));
    for device in devices {
        let on_card = |reservations: &[Reservation], is_allocated| {
            let reservations = reservations
                .iter()
                .filter(|reservation| reservation.is_allocated == is_allocated);
            total(
                reservations
                    .flat_map(|reservation| &reservation.devices)
                    .filter(|planned| planned.id == device.id),
            )
        };
        let (freed, reserved) = if cards.contains(&device.id) {
            (on_card(&request.replaced, true), on_card(&request.reserved, false))
        } else {
            // Main memory is shared by the CPU and integrated GPUs.
            (main_freed, main_reserved)
        };
        let max = device.memory_total.unwrap_or(u64::MAX);
        device.memory_free = device
            .memory_free
            .map(|free| free.saturating_add(freed).min(max).saturating_sub(reserved));
    }
}

/// Ids of the GPUs with dedicated memory.
fn cards(devices: &[DeviceInfo]) -> Vec<String> {
    let cards = devices.iter().filter(|device| device.kind == "discrete");
    cards.map(|device| device.id.clone()).collect()
}

/// Bytes of plans. They saturate, since the plans of a request may contain any numbers.
fn total<'a>(devices: impl Iterator<Item = &'a PlannedDevice>) -> u64 {
    devices.map(PlannedDevice::needed).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::super::tests::device;
    use super::*;

    fn planned(id: &str, weights: u64) -> PlannedDevice {
        PlannedDevice {
            id: id.to_owned(),
            weights,
            kv: 1,
            compute: 1,
            ..PlannedDevice::default()
        }
    }

    #[test]
    fn unused_reservations_of_other_processes_are_not_free() {
        let free = |request: &PlanRequest| {
            let mut devices = [
                device("cpu", "cpu", 1000),
                device("gpu0", "discrete", 500),
                device("gpu1", "integrated", 800),
            ];
            for device in &mut devices {
                device.memory_total = Some(2000);
            }
            account_for_models(&mut devices, request);
            devices.map(|device| device.memory_free.expect("it is known"))
        };
        let reserved = |process, is_allocated| PlanRequest {
            reserved: vec![Reservation {
                process,
                is_allocated,
                devices: vec![planned("cpu", 98), planned("gpu0", 198), planned("gpu1", 48)],
            }],
            ..PlanRequest::default()
        };
        assert_eq!(free(&PlanRequest::default()), [1000, 500, 800]);
        assert_eq!(free(&reserved(None, false)), [850, 300, 650]);
        assert_eq!(free(&reserved(None, true)), [850, 500, 650], "the driver counts it");
        // This process uses more than the reservation.
        let this = Some(std::process::id());
        assert_eq!(free(&reserved(this, true)), [1000, 500, 800]);
        let replaced = |process, is_allocated| PlanRequest {
            replaced: reserved(process, is_allocated).reserved,
            ..PlanRequest::default()
        };
        assert_eq!(free(&replaced(this, true)), [1150, 700, 950]);
        assert_eq!(free(&replaced(None, false)), [1000, 500, 800], "it uses nothing yet");
        let absurd = PlanRequest {
            reserved: vec![Reservation {
                devices: vec![planned("cpu", u64::MAX), planned("gpu0", u64::MAX)],
                ..Reservation::default()
            }],
            ..PlanRequest::default()
        };
        assert_eq!(free(&absurd), [0, 0, 0]);
    }
}
