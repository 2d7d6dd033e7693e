//! Split models: `NAME-00001-of-00003.gguf` and so on.

use std::path::{Path, PathBuf};

/// Most shards of a model; with more, a name counts as that of a single file.
const MAX_SHARDS: u32 = 1000;

/// Parses a shard's file name into name, shard number (from 1) and number of shards.
fn parse_name(path: &Path) -> Option<(String, u32, u32)> {
    let stem = path.file_stem()?.to_string_lossy();
    let (head, count) = stem.rsplit_once("-of-")?;
    let (name, part) = head.rsplit_once('-')?;
    let number = |text: &str| (text.len() == 5).then(|| text.parse::<u32>().ok()).flatten();
    Some((name.to_owned(), number(part)?, number(count)?))
}

/// Whether a file is not split, or the first shard.
pub(super) fn is_first_shard(path: &Path) -> bool {
    parse_name(path).is_none_or(|(_, part, _)| part == 1)
}

/// All files of a model; some shards may be missing.
pub(super) fn shard_files(path: &Path) -> Vec<PathBuf> {
    match parse_name(path) {
        Some((name, _, count)) if (2..=MAX_SHARDS).contains(&count) => {
            let file = |part| path.with_file_name(format!("{name}-{part:05}-of-{count:05}.gguf"));
            (1..=count).map(file).collect()
        }
        _ => vec![path.to_owned()],
    }
}
