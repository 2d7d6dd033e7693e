//! Models split into several files: `name-00001-of-00003.gguf` and so on.

use super::{GgufProblem, Metadata};
use std::path::{Path, PathBuf};

/// The part number of a file and the number of parts, from its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Counted from 0.
    pub number: u32,
    pub count: u32,
    /// Total number of tensors in all parts, if given.
    pub tensors: Option<u64>,
}

impl Part {
    /// Reads the split keys of the metadata; without them the file is the only part.
    pub fn read(metadata: &Metadata) -> Result<Self, GgufProblem> {
        let count = metadata.u32("split.count")?.unwrap_or(1).max(1);
        let number = metadata.u32("split.no")?.unwrap_or(0);
        let tensors = metadata.u64("split.tensors.count")?;
        if number >= count {
            return Err(GgufProblem::metadata(
                "split.no",
                format!("part {number} (from 0) is out of range for {count} parts"),
            ));
        }
        // File names have five digits for the part number.
        if count > 99_999 {
            return Err(GgufProblem::metadata(
                "split.count",
                format!("{count} parts are more than the 99999 that file names allow"),
            ));
        }
        Ok(Self { number, count, tensors })
    }
}

/// The name of a part's file: `STEM-00001-of-00003.gguf`.
struct PartName<'a> {
    stem: &'a str,
    /// Counted from 1.
    part: u32,
    count: u32,
    extension: &'a str,
}

impl<'a> PartName<'a> {
    /// Parses the name of a file; `None` if it is not that of a part.
    fn parse(path: &'a Path) -> Option<Self> {
        let (name, extension) = path.file_name()?.to_str()?.rsplit_once('.')?;
        if !extension.eq_ignore_ascii_case("gguf") {
            return None;
        }
        let (head, count) = name.rsplit_once("-of-")?;
        let (stem, part) = head.rsplit_once('-')?;
        let number = |text: &str| {
            let is_number = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u32>().ok()).flatten()
        };
        let (part, count) = (number(part)?, number(count)?);
        Some(Self {
            stem,
            part,
            count,
            extension,
        })
    }

    /// The path of another part, counted from 1.
    fn sibling(&self, path: &Path, part: u32) -> PathBuf {
        let Self {
            stem, count, extension, ..
        } = self;
        path.with_file_name(format!("{stem}-{part:05}-of-{count:05}.{extension}"))
    }
}

/// The most parts of a model that [`part_files`] lists; with more, a name counts as that of a
/// single file.
const MAX_LISTED: u32 = 1000;

/// Whether a file is, by its name, not split or the first part.
pub fn is_first_part(path: &Path) -> bool {
    PartName::parse(path).is_none_or(|name| name.part == 1)
}

/// All files of a model, by the name of one; some may be missing.
pub fn part_files(path: &Path) -> Vec<PathBuf> {
    match PartName::parse(path) {
        Some(name) if (2..=MAX_LISTED).contains(&name.count) => {
            (1..=name.count).map(|part| name.sibling(path, part)).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// Returns the path of part `number` (from 0), given the path of part `of`.
pub(super) fn sibling(path: &Path, of: Part, number: u32) -> Result<PathBuf, GgufProblem> {
    match PartName::parse(path).filter(|name| (name.part, name.count) == (of.number + 1, of.count)) {
        Some(name) => Ok(name.sibling(path, number + 1)),
        None => {
            let (part, count) = (of.number + 1, of.count);
            Err(GgufProblem::Split(format!(
                "this file is part {part} of {count} of a split model, but its name does not end in \
                 '-{part:05}-of-{count:05}.gguf', so the other parts cannot be found. Rename all parts to their \
                 original names."
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_found_by_name() {
        let of = Part {
            number: 0,
            count: 3,
            tensors: None,
        };
        let found = sibling(Path::new("/models/big-00001-of-00003.gguf"), of, 2).unwrap();
        assert_eq!(found, Path::new("/models/big-00003-of-00003.gguf"));
        assert!(sibling(Path::new("/models/big.gguf"), of, 1).is_err());
        let loud = sibling(Path::new("/models/BIG-00001-of-00003.GGUF"), of, 1).unwrap();
        assert_eq!(loud, Path::new("/models/BIG-00002-of-00003.GGUF"));
        assert!(sibling(Path::new("/models/big-00001-of-00004.gguf"), of, 1).is_err());
    }

    #[test]
    fn files_are_listed_by_name() {
        let check = |name: &str, is_first: bool, files: &[&str]| {
            let found = part_files(Path::new(name));
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!((is_first_part(Path::new(name)), found), (is_first, files), "{name}");
        };
        check("a.gguf", true, &["a.gguf"]);
        let both = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"];
        check(both[0], true, &both);
        check(both[1], false, &both);
        check("a-2-of-2.gguf", true, &["a-2-of-2.gguf"]);
        check("a-00001-of-99999.gguf", true, &["a-00001-of-99999.gguf"]);
    }
}
