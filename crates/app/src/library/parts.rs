//! Models that are split over several files: `NAME-00001-of-00003.gguf` and so on.

use std::path::{Path, PathBuf};

/// More parts than any model has: their files are not looked for.
const MOST: u32 = 1000;

/// What a file's name says: what comes before the numbers, which part it is (from 1), and of how many.
fn numbers(path: &Path) -> Option<(String, u32, u32)> {
    let stem = path.file_stem()?.to_string_lossy();
    let (head, count) = stem.rsplit_once("-of-")?;
    let (name, part) = head.rsplit_once('-')?;
    let number = |text: &str| (text.len() == 5).then(|| text.parse::<u32>().ok()).flatten();
    Some((name.to_owned(), number(part)?, number(count)?))
}

/// Whether a file is whole, or the first part of a split model.
pub(super) fn is_first(path: &Path) -> bool {
    numbers(path).is_none_or(|(_, part, _)| part == 1)
}

/// All files of a model, some of which may not be there; of one that is not split the file itself.
pub(super) fn files_of(path: &Path) -> Vec<PathBuf> {
    match numbers(path) {
        Some((name, _, count)) if (2..=MOST).contains(&count) => {
            let file = |part| path.with_file_name(format!("{name}-{part:05}-of-{count:05}.gguf"));
            (1..=count).map(file).collect()
        }
        _ => vec![path.to_owned()],
    }
}
