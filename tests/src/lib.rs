//! Shared code of end-to-end tests: paths of programs and models, what tests make once, waits, a
//! WebDriver client for the window, and the GPU driver.

#[cfg(target_os = "linux")]
pub mod close;
#[cfg(target_os = "linux")]
pub mod drag;
pub mod driver;
pub mod hearth;
#[cfg(target_os = "linux")]
pub mod keyboard;
#[cfg(target_os = "linux")]
pub mod panel;
pub mod paths;
#[cfg(target_os = "linux")]
pub mod screen;
#[cfg(target_os = "linux")]
pub mod screen_reader;
#[cfg(target_os = "linux")]
pub mod scripted;
pub mod shared;
pub mod wait;
pub mod webdriver;
#[cfg(target_os = "linux")]
pub mod window;
