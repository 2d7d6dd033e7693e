//! Shared code of end-to-end tests: paths of executables and models, waits, a WebDriver client for
//! the window, and the GPU driver.

#[cfg(target_os = "linux")]
pub mod close;
#[cfg(target_os = "linux")]
pub mod drag;
pub mod driver;
pub mod hearth;
pub mod paths;
#[cfg(target_os = "linux")]
pub mod screen;
pub mod wait;
pub mod webdriver;
#[cfg(target_os = "linux")]
pub mod window;
