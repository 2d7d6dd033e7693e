//! What end-to-end tests share: the executables of this build, the model, a WebDriver client for the window, and a GPU driver.

#[cfg(target_os = "linux")]
pub mod close;
#[cfg(target_os = "linux")]
pub mod drag;
pub mod driver;
pub mod hearth;
pub mod place;
#[cfg(target_os = "linux")]
pub mod screen;
pub mod webdriver;
#[cfg(target_os = "linux")]
pub mod window;
