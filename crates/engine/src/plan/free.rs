//! The memory that is free for a model, beside what other processes of Hearth have reserved.

use crate::memory;
use hearth_protocol::{DeviceInfo, PlanRequest, PlannedDevice, Reservation};

/// Adds the memory that is in use by models that will be replaced to the free memory of the
/// devices, and subtracts the memory that other processes have reserved and do not use yet.
pub fn count(devices: &mut [DeviceInfo], request: &PlanRequest) {
    let cards = cards(devices);
    let main = |device: &&PlannedDevice| !cards.contains(&device.id);
    // Of the plan of a process in main memory: bytes in use, and bytes not used yet.
    let split = |reservation: &Reservation| {
        let planned = total(reservation.devices.iter().filter(main));
        let private = reservation.process.and_then(memory::private_of).unwrap_or(0);
        let used = private.min(planned);
        (used, planned - used)
    };
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
    let used = sum(&mut request.replaced.iter().map(|reservation| split(reservation).0));
    let unused = sum(&mut request.reserved.iter().map(|reservation| split(reservation).1));
    for device in devices {
        let on_card = |reservations: &[Reservation], is_allocated| {
            let counted = reservations.iter().filter(|it| it.is_allocated == is_allocated);
            total(
                counted
                    .flat_map(|it| &it.devices)
                    .filter(|planned| planned.id == device.id),
            )
        };
        let (freed, taken) = if cards.contains(&device.id) {
            (on_card(&request.replaced, true), on_card(&request.reserved, false))
        } else {
            // Main memory is shared by the CPU and integrated GPUs.
            (used, unused)
        };
        let most = device.memory_total.unwrap_or(u64::MAX);
        device.memory_free = device
            .memory_free
            .map(|free| free.saturating_add(freed).min(most).saturating_sub(taken));
    }
}

/// Ids of the GPUs with dedicated memory.
fn cards(devices: &[DeviceInfo]) -> Vec<String> {
    let cards = devices.iter().filter(|device| device.kind == "discrete");
    cards.map(|device| device.id.clone()).collect()
}

/// Bytes of plans, whatever they say.
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
    fn what_others_reserved_and_do_not_use_yet_is_not_free() {
        let free = |request: &PlanRequest| {
            let mut devices = [
                device("cpu", "cpu", 1000),
                device("gpu0", "discrete", 500),
                device("gpu1", "integrated", 800),
            ];
            for device in &mut devices {
                device.memory_total = Some(2000);
            }
            count(&mut devices, request);
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
        // This process uses more than that.
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
