//! The memory that is free for a model, beside what other processes of Hearth have reserved.

use crate::memory;
use hearth_protocol::{DeviceInfo, PlanRequest, PlannedDevice};

/// Add the memory of models that will be replaced to the free memory of the devices, and subtract
/// what other processes have reserved and not used yet.
pub fn count(devices: &mut [DeviceInfo], request: &PlanRequest) {
    let cards = cards(devices);
    let main = |device: &&PlannedDevice| !cards.contains(&device.id);
    let mut unused_main = 0_u64;
    for reservation in &request.reserved {
        let planned = total(reservation.devices.iter().filter(main));
        let used = reservation.process.and_then(memory::private_of).unwrap_or(0);
        unused_main = unused_main.saturating_add(planned.saturating_sub(used));
    }
    for device in devices {
        let is_card = cards.contains(&device.id);
        let here = |planned: &&PlannedDevice| match is_card {
            true => planned.id == device.id,
            // Main memory is shared by the CPU and integrated GPUs.
            false => main(planned),
        };
        let replaced = total(request.loaded.iter().filter(here));
        let unused = match is_card {
            true => {
                let pending = request.reserved.iter().filter(|reservation| !reservation.is_allocated);
                total(pending.flat_map(|reservation| &reservation.devices).filter(here))
            }
            false => unused_main,
        };
        let most = device.memory_total.unwrap_or(u64::MAX);
        device.memory_free = device
            .memory_free
            .map(|free| free.saturating_add(replaced).min(most).saturating_sub(unused));
    }
}

/// Ids of the GPUs with memory of their own.
fn cards(devices: &[DeviceInfo]) -> Vec<String> {
    let cards = devices.iter().filter(|device| device.kind == "discrete");
    cards.map(|device| device.id.clone()).collect()
}

/// Bytes of plans, whatever they say.
fn total<'a>(devices: impl Iterator<Item = &'a PlannedDevice>) -> u64 {
    let bytes = devices.flat_map(|device| [device.weights, device.kv, device.compute]);
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::super::tests::device;
    use super::*;
    use hearth_protocol::Reservation;

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
        let replaced = PlanRequest {
            loaded: vec![planned("cpu", 98), planned("gpu0", 5000)],
            ..PlanRequest::default()
        };
        assert_eq!(free(&replaced), [1100, 2000, 900]);
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
