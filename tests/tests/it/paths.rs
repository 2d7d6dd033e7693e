//! The folder in which tests look for the programs.

use hearth_tests::paths::Places;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Places in a workspace at `root`, of a test in another folder.
fn places(root: &Path) -> Places {
    Places {
        root: root.to_path_buf(),
        test: PathBuf::from("/cache/build/release/deps/it-0123"),
        ..Places::default()
    }
}

#[test]
fn the_programs_of_a_checkout_are_in_its_target_folder() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    fs::create_dir_all(root.join("target/release")).expect("a folder");
    assert_eq!(places(root).programs(), root.join("target/release"));

    let with_variables = |named: &str, target: &str| Places {
        named: Some(OsString::from(named)),
        target: Some(OsString::from(target)),
        ..places(root)
    };
    assert_eq!(with_variables("", "").programs(), root.join("target/release"));
    assert_eq!(with_variables("", "other").programs(), root.join("other/release"));
    let elsewhere = root.join("elsewhere");
    let elsewhere = elsewhere.to_str().expect("test paths are UTF-8");
    assert_eq!(
        with_variables("", elsewhere).programs(),
        Path::new(elsewhere).join("release")
    );
    assert_eq!(with_variables(elsewhere, "other").programs(), Path::new(elsewhere));
}

#[test]
fn the_programs_of_a_copied_test_are_above_it() {
    let root = Path::new("/a/checkout/of/another/machine");
    assert_eq!(places(root).programs(), Path::new("/cache/build/release"));
}
