//! The generated TypeScript of the wire is up to date.

use std::{fs, path::Path};

/// `HEARTH_UPDATE_WIRE=1 cargo test --release -p hearth-app --test it wire` updates the file.
#[test]
fn typescript_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/host/wire.ts");
    let expected = hearth_app::wire::typescript();
    if std::env::var_os("HEARTH_UPDATE_WIRE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &expected).unwrap();
    }
    // A checkout on Windows may have other line endings.
    let actual = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        actual == expected,
        "ui/src/lib/host/wire.ts is stale: run HEARTH_UPDATE_WIRE=1 cargo test --release -p hearth-app --test it wire"
    );
}
