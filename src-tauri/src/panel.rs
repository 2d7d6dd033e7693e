//! Whether the desktop shows icons in a tray.

/// Whether a program shows icons of StatusNotifierItem and answers in time. The icon asks it on the
/// main thread and without a limit, so one that hangs would hang the window.
#[cfg(target_os = "linux")]
pub fn has_tray() -> bool {
    use std::time::Duration;
    use zbus::blocking::connection::Builder;

    const WATCHER: &str = "org.kde.StatusNotifierWatcher";
    const LIMIT: Duration = Duration::from_secs(2);

    let asked = || {
        let bus = Builder::session()?.method_timeout(LIMIT).build()?;
        let question = (WATCHER, "IsStatusNotifierHostRegistered");
        let properties = Some("org.freedesktop.DBus.Properties");
        let answer = bus.call_method(Some(WATCHER), "/StatusNotifierWatcher", properties, "Get", &question)?;
        let value: zbus::zvariant::OwnedValue = answer.body().deserialize()?;
        Ok::<_, zbus::Error>(bool::try_from(value)?)
    };
    asked()
        .inspect_err(|error| tracing::debug!(%error, "the desktop has no tray"))
        .unwrap_or(false)
}

/// Always: Windows and macOS have a tray.
#[cfg(not(target_os = "linux"))]
pub fn has_tray() -> bool {
    true
}
