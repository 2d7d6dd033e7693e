//! Detection of a tray on the desktop.

/// Whether a StatusNotifierItem host is registered and responds in time. `tray-icon` calls it on
/// the main thread without a timeout, so a host that hangs would block the window.
#[cfg(target_os = "linux")]
pub fn has_tray() -> bool {
    use std::time::Duration;
    use zbus::blocking::connection::Builder;

    const WATCHER: &str = "org.kde.StatusNotifierWatcher";
    const TIMEOUT: Duration = Duration::from_secs(2);

    let query = || {
        let bus = Builder::session()?.method_timeout(TIMEOUT).build()?;
        let arguments = (WATCHER, "IsStatusNotifierHostRegistered");
        let interface = Some("org.freedesktop.DBus.Properties");
        let reply = bus.call_method(Some(WATCHER), "/StatusNotifierWatcher", interface, "Get", &arguments)?;
        let value: zbus::zvariant::OwnedValue = reply.body().deserialize()?;
        Ok::<_, zbus::Error>(bool::try_from(value)?)
    };
    query()
        .inspect_err(|error| tracing::debug!(%error, "the desktop has no tray"))
        .unwrap_or(false)
}

/// Always: Windows and macOS have a tray.
#[cfg(not(target_os = "linux"))]
pub fn has_tray() -> bool {
    true
}
