//! Switching to another build of Hearth, which is faster on the requested GPU.

use super::{Chat, LoadState, Target};
use std::path::PathBuf;

/// The build that a load was switched to, and the device and build requested then.
pub(super) struct SwitchedBuild {
    pub(super) program: PathBuf,
    device: Option<String>,
    build: Option<String>,
}

impl Chat {
    /// Repeats the load in a worker of another build.
    pub(super) fn switch_build(&mut self, program: PathBuf) {
        let LoadState::Loading { target, is_sent, .. } = &mut self.loaded else {
            return;
        };
        *is_sent = false;
        let (device, build) = (target.settings.device.clone(), target.settings.build.clone());
        self.drop_worker();
        self.switched_build = Some(SwitchedBuild { program, device, build });
    }

    /// Reverts to the default build before a load with another device or build.
    pub(super) fn revert_build(&mut self, target: &Target) {
        let other = |switched_build: &SwitchedBuild| {
            switched_build.device != target.settings.device || switched_build.build != target.settings.build
        };
        if self.switched_build.as_ref().is_some_and(other) {
            self.drop_worker();
            self.switched_build = None;
        }
    }
}
