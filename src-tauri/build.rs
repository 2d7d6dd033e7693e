//! Checks that there is a page to embed, then lets Tauri prepare the window's resources.

use std::path::Path;

fn main() {
    // The page is embedded at compile time: build again when it changes.
    println!("cargo:rerun-if-changed=../ui/dist");
    if !Path::new("../ui/dist/index.html").is_file() {
        eprintln!("The window's page, ui/dist, has not been built. Run `cargo xtask setup` first.");
        std::process::exit(1);
    }
    tauri_build::build();
}
