//! Devices that are to be checked. The worker checks them beside whatever else it does.

use crate::wire::{Device, Problem};
use tokio::sync::oneshot;

/// Who waits for a check.
pub(crate) type Reply = oneshot::Sender<Result<Vec<Device>, Problem>>;

/// Checks that were asked for.
#[derive(Default)]
pub(super) struct Checks(Vec<Check>);

struct Check {
    device: String,
    reply: Reply,
    /// Whether the worker was asked.
    asked: bool,
}

impl Checks {
    /// Takes a wish on.
    pub(super) fn want(&mut self, device: String, reply: Reply) {
        // One that is under way answers both.
        let asked = self.0.iter().any(|check| check.device == device && check.asked);
        self.0.push(Check { device, reply, asked });
    }

    /// Whether a worker is needed.
    pub(super) fn wanted(&self) -> bool {
        !self.0.is_empty()
    }

    /// What the worker is to be asked now.
    pub(super) fn next(&mut self) -> Vec<String> {
        let new = self.0.iter_mut().filter(|check| !check.asked);
        let mut devices: Vec<String> = new
            .map(|check| {
                check.asked = true;
                check.device.clone()
            })
            .collect();
        devices.dedup();
        devices
    }

    /// The worker has checked a device.
    pub(super) fn answered(&mut self, device: &str, devices: &Result<Vec<Device>, Problem>) {
        for check in self.0.extract_if(.., |check| check.device == device) {
            // Whoever asked may have gone; here and below.
            let _ = check.reply.send(devices.clone());
        }
    }

    /// The worker is let go: another one is asked again.
    pub(super) fn ask_again(&mut self) {
        self.0.iter_mut().for_each(|check| check.asked = false);
    }

    /// Nobody will answer.
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
    fn one_check_answers_all_who_wait_for_it() {
        let mut checks = Checks::default();
        let want = |checks: &mut Checks| {
            let (reply, answer) = oneshot::channel();
            checks.want("gpu0".to_owned(), reply);
            answer
        };
        let mut first = want(&mut checks);
        assert_eq!(checks.next(), ["gpu0"]);
        let mut second = want(&mut checks);
        assert!(checks.next().is_empty(), "it is under way");
        checks.ask_again();
        assert_eq!(checks.next(), ["gpu0"], "another worker is asked once");
        checks.answered("gpu0", &Ok(Vec::new()));
        assert!(first.try_recv().is_ok() && second.try_recv().is_ok() && !checks.wanted());
    }
}
