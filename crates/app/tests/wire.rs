//! The wire in TypeScript is the wire in Rust.

use std::{fs, path::Path};

/// `HEARTH_UPDATE_WIRE=1 cargo test --release -p hearth-app --test wire` writes the file anew.
#[test]
fn typescript_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/host/wire.ts");
    let wanted = hearth_app::wire::typescript();
    if std::env::var_os("HEARTH_UPDATE_WIRE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &wanted).unwrap();
    }
    // A checkout on Windows may have turned the line ends.
    let found = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        found == wanted,
        "ui/src/lib/host/wire.ts is stale: run HEARTH_UPDATE_WIRE=1 cargo test --release -p hearth-app --test wire"
    );
}
