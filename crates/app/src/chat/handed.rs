//! A worker that hands a load over to another build of Hearth, which does better on the GPU that is to be used.

use super::{Chat, Loaded, Target};
use std::path::PathBuf;

/// The build that a load was handed over to, and for what.
pub(super) struct Handed {
    pub(super) program: PathBuf,
    device: Option<String>,
    build: Option<String>,
}

impl Chat {
    /// The worker wants its load done by another program: one of that is started, and asked the same.
    pub(super) fn hand_over(&mut self, program: PathBuf) {
        let Loaded::Loading { target, asked, .. } = &mut self.loaded else {
            return;
        };
        *asked = false;
        let (device, build) = (target.how.device.clone(), target.how.build.clone());
        self.let_worker_go();
        self.handed = Some(Handed { program, device, build });
    }

    /// Before another load: what it was handed over for may not hold for this one.
    pub(super) fn take_back(&mut self, target: &Target) {
        let other = |handed: &Handed| handed.device != target.how.device || handed.build != target.how.build;
        if self.handed.as_ref().is_some_and(other) {
            self.let_worker_go();
            self.handed = None;
        }
    }
}
