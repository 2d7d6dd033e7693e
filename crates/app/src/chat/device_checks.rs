//! Pending device checks. The worker runs them concurrently with its other work.

use crate::wire::{Device, Problem};
use tokio::sync::oneshot;

/// The reply to a check.
pub(crate) type Reply = oneshot::Sender<Result<Vec<Device>, Problem>>;

/// The pending device checks.
#[derive(Default)]
pub(super) struct DeviceChecks(Vec<Check>);

struct Check {
    device: String,
    reply: Reply,
    /// Whether the request was sent to the worker.
    is_sent: bool,
}

impl DeviceChecks {
    /// Adds a request.
    pub(super) fn request(&mut self, device: String, reply: Reply) {
        // A running check answers both.
        let is_sent = self.0.iter().any(|check| check.device == device && check.is_sent);
        self.0.push(Check { device, reply, is_sent });
    }

    /// Whether any check is pending.
    pub(super) fn is_pending(&self) -> bool {
        !self.0.is_empty()
    }

    /// The devices to send to the worker now.
    pub(super) fn next(&mut self) -> Vec<String> {
        let new = self.0.iter_mut().filter(|check| !check.is_sent);
        let mut devices: Vec<String> = new
            .map(|check| {
                check.is_sent = true;
                check.device.clone()
            })
            .collect();
        devices.dedup();
        devices
    }

    /// Completes the checks of a device.
    pub(super) fn complete(&mut self, device: &str, devices: &Result<Vec<Device>, Problem>) {
        for check in self.0.extract_if(.., |check| check.device == device) {
            // Here and below, the receiver may have been dropped.
            let _ = check.reply.send(devices.clone());
        }
    }

    /// Marks all checks as unsent, for a new worker.
    pub(super) fn resend(&mut self) {
        self.0.iter_mut().for_each(|check| check.is_sent = false);
    }

    /// Fails all checks.
    pub(super) fn fail(&mut self, problem: &Problem) {
        for check in self.0.drain(..) {
            let _ = check.reply.send(Err(problem.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_answers_all_requests_for_the_device() {
        let mut checks = DeviceChecks::default();
        let request = |checks: &mut DeviceChecks| {
            let (reply, answer) = oneshot::channel();
            checks.request("gpu0".to_owned(), reply);
            answer
        };
        let mut first = request(&mut checks);
        assert_eq!(checks.next(), ["gpu0"]);
        let mut second = request(&mut checks);
        assert!(checks.next().is_empty(), "the check is running");
        checks.resend();
        assert_eq!(checks.next(), ["gpu0"], "a new worker gets one request");
        checks.complete("gpu0", &Ok(Vec::new()));
        assert!(first.try_recv().is_ok() && second.try_recv().is_ok() && !checks.is_pending());
    }
}
