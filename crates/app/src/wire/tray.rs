//! The icon in the system's tray.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Whether the tray has an icon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum TraySetting {
    /// No icon.
    Off,
    /// An icon while the window is open.
    #[default]
    On,
    /// An icon; closing the window hides it, and Hearth goes on.
    KeepRunning,
}

/// The texts of the icon's menu, in the user's language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct TrayContent {
    /// The entry that opens the window.
    pub open: String,
    /// The running tasks, one a line, or a line that says that there are none.
    pub running: Vec<String>,
    /// The entry that ends Hearth.
    pub quit: String,
}
