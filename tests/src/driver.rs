//! The GPU driver of tests: a software driver, unless the environment selects another or a real
//! GPU.

/// Software drivers of systems, best first: Chromium's is fifteen times as fast as Mesa's on these
/// loads.
#[cfg(target_os = "linux")]
const SOFTWARE_DRIVERS: [&str; 6] = [
    "/usr/lib/chromium/vk_swiftshader_icd.json",
    "/usr/lib64/chromium-browser/vk_swiftshader_icd.json",
    "/opt/google/chrome/vk_swiftshader_icd.json",
    "/usr/share/vulkan/icd.d/lvp_icd.json",
    "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
    "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json",
];

/// Whether `HEARTH_NO_GPU_TESTS` is 1, which skips GPU tests.
pub fn is_disabled() -> bool {
    std::env::var("HEARTH_NO_GPU_TESTS").is_ok_and(|value| value == "1")
}

/// Selects a software driver, unless the environment names one or `HEARTH_TEST_GPU` is `real`. Call
/// it before a driver is loaded, from one thread.
#[cfg(target_os = "linux")]
pub fn select() {
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let chosen = named || std::env::var("HEARTH_TEST_GPU").is_ok_and(|value| value == "real");
    let driver = SOFTWARE_DRIVERS.iter().find(|path| std::path::Path::new(path).exists());
    // SAFETY: tests read the environment through the standard library only, whose lock makes that
    // sound; the driver, which reads it directly, is loaded later.
    unsafe {
        if let (false, Some(driver)) = (chosen, driver) {
            std::env::set_var("VK_DRIVER_FILES", driver);
        }
        if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
            std::env::set_var("XDG_RUNTIME_DIR", std::env::temp_dir());
        }
    }
}

/// Does nothing: other systems use their own drivers.
#[cfg(not(target_os = "linux"))]
pub fn select() {}
