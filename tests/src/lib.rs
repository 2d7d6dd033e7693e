//! What end-to-end tests share: the executables of this build, the model, and a WebDriver client for the window.

#[cfg(target_os = "linux")]
pub mod drag;
pub mod hearth;
pub mod place;
#[cfg(target_os = "linux")]
pub mod screen;
pub mod webdriver;
#[cfg(target_os = "linux")]
pub mod window;
