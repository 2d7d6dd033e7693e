//! Paths in a folder.

use std::path::{Component, Path};

/// The part of a path after a folder. `None` if the path is not in the folder, or contains `..` and
/// might lead out of it. Links are not followed.
pub(crate) fn inside<'a>(path: &'a Path, folder: &Path) -> Option<&'a Path> {
    let rest = path.strip_prefix(folder).ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_folder_never_leads_out_of_it() {
        let folder = Path::new("/data/runs");
        assert_eq!(inside(Path::new("/data/runs/1/a"), folder), Some(Path::new("1/a")));
        assert_eq!(inside(folder, folder), Some(Path::new("")));
        for path in [
            "/data/runs/../x",
            "/data/runs/1/../../x",
            "/data/runsx",
            "/other",
            "runs/1",
            "",
        ] {
            assert_eq!(inside(Path::new(path), folder), None, "{path}");
        }
    }
}
