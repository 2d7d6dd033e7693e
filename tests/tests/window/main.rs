//! The real window, end to end, in one executable: linking one takes longer than most tests.
//!
//! Linux only: macOS has no WebDriver for its web view, and on Windows none is set up. Under
//! nextest, a test runs alone unless `.config/nextest.toml` names it as one with a scripted worker.
#![cfg(target_os = "linux")]

mod families;
mod window;
mod window_families;
mod window_first_hour;
mod window_follow;
mod window_installed;
mod window_keyboard;
mod window_long;
mod window_settings;
mod window_size;
mod window_tray;
mod window_tune;
