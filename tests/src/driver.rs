//! The GPU driver that tests use: one in software, the same on every machine, unless the caller has chosen one, or wants a real GPU.

/// Software drivers that systems install, best first: that of Chromium is fifteen times as fast as Mesa's on these loads.
#[cfg(target_os = "linux")]
const SOFTWARE_DRIVERS: [&str; 6] = [
    "/usr/lib/chromium/vk_swiftshader_icd.json",
    "/usr/lib64/chromium-browser/vk_swiftshader_icd.json",
    "/opt/google/chrome/vk_swiftshader_icd.json",
    "/usr/share/vulkan/icd.d/lvp_icd.json",
    "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
    "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json",
];

/// Whether `HEARTH_NO_GPU_TESTS` is 1, which leaves out the tests that need a GPU.
pub fn left_out() -> bool {
    std::env::var("HEARTH_NO_GPU_TESTS").is_ok_and(|value| value == "1")
}

/// Takes a software driver, unless the caller has named one, or leaves it to the system by setting `HEARTH_TEST_GPU` to `real`. Call
/// it before a driver is loaded, from one thread.
#[cfg(target_os = "linux")]
pub fn choose() {
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let chosen = named || std::env::var("HEARTH_TEST_GPU").is_ok_and(|value| value == "real");
    let driver = SOFTWARE_DRIVERS.iter().find(|path| std::path::Path::new(path).exists());
    // SAFETY: the tests read the environment through the standard library only, whose lock makes that sound; the driver, which
    // does not, is loaded after this.
    unsafe {
        if let (false, Some(driver)) = (chosen, driver) {
            std::env::set_var("VK_DRIVER_FILES", driver);
        }
        if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
            std::env::set_var("XDG_RUNTIME_DIR", std::env::temp_dir());
        }
    }
}

/// Other systems have their drivers in one place.
#[cfg(not(target_os = "linux"))]
pub fn choose() {}
