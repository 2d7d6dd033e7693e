//! Models split into several files: `name-00001-of-00003.gguf` and so on.

use super::{GgufProblem, Metadata};
use std::ffi::{OsStr, OsString};
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
    /// Reads the split keys of the metadata. Without them the file is the only part.
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

/// The name of a part's file: `STEM-00001-of-00003.gguf`, with five digits per number, as in
/// llama.cpp. The stem need not be UTF-8, and the rest may be in upper case.
#[derive(Clone, Copy)]
struct PartName<'a> {
    stem: &'a OsStr,
    /// Counted from 1.
    part: u32,
    count: u32,
    /// `-of-`.
    infix: &'a str,
    /// `.gguf`.
    extension: &'a str,
}

impl<'a> PartName<'a> {
    /// Parses the name of a file. `None` if it is not the name of a part.
    fn parse(path: &'a Path) -> Option<Self> {
        let name = path.file_name()?.as_encoded_bytes();
        let (stem, suffix) = name.split_at_checked(name.len().checked_sub("-00001-of-00003.gguf".len())?)?;
        let suffix = std::str::from_utf8(suffix).ok().filter(|suffix| suffix.is_ascii())?;
        let number = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse::<u32>().ok()).flatten()
        };
        let (infix, extension) = (&suffix[6..10], &suffix[15..]);
        let is_suffix =
            suffix.starts_with('-') && infix.eq_ignore_ascii_case("-of-") && extension.eq_ignore_ascii_case(".gguf");
        let (part, count) = (number(&suffix[1..6])?, number(&suffix[10..15])?);
        (is_suffix && (1..=count).contains(&part)).then(|| Self {
            // SAFETY: these bytes are from an `OsStr` and end just before valid UTF-8, the suffix.
            stem: unsafe { OsStr::from_encoded_bytes_unchecked(stem) },
            part,
            count,
            infix,
            extension,
        })
    }

    /// The path of another part, counted from 1.
    fn sibling(&self, path: &Path, part: u32) -> PathBuf {
        let Self {
            stem,
            count,
            infix,
            extension,
            ..
        } = self;
        let mut name = OsString::from(stem);
        name.push(format!("-{part:05}{infix}{count:05}{extension}"));
        path.with_file_name(name)
    }
}

/// Maximum parts of a model that [`part_files`] lists. A name that claims more counts as the name
/// of a single file.
const MAX_LISTED: u32 = 1000;

/// Whether a file is not split or is the first part, according to its name.
pub fn is_first_part(path: &Path) -> bool {
    PartName::parse(path).is_none_or(|name| name.part == 1)
}

/// The paths of all files of a model, given the path of one. Some may be missing.
pub fn part_files(path: &Path) -> Vec<PathBuf> {
    each_part_file(path).collect()
}

/// As [`part_files`], one at a time, since a name may claim many parts that do not exist.
pub fn each_part_file(path: &Path) -> impl Iterator<Item = PathBuf> {
    let split = PartName::parse(path).filter(|name| (2..=MAX_LISTED).contains(&name.count));
    let single = split.is_none().then(|| path.to_owned());
    let parts = split
        .into_iter()
        .flat_map(move |name| (1..=name.count).map(move |part| name.sibling(path, part)));
    parts.chain(single)
}

/// The path of part `number` (from 0), given the path of another part.
pub(super) fn sibling(path: &Path, part: Part, number: u32) -> Result<PathBuf, GgufProblem> {
    let (part, count) = (part.number + 1, part.count);
    match PartName::parse(path).filter(|name| (name.part, name.count) == (part, count)) {
        Some(name) => Ok(name.sibling(path, number + 1)),
        None => Err(GgufProblem::Split(format!(
            "this file is part {part} of {count} of a split model, but its name does not end in \
             '-{part:05}-of-{count:05}.gguf', so the other parts cannot be found. Rename all parts to their original \
             names."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_found_by_name() {
        let first = Part {
            number: 0,
            count: 3,
            tensors: None,
        };
        let actual = sibling(Path::new("/models/big-00001-of-00003.gguf"), first, 2).unwrap();
        assert_eq!(actual, Path::new("/models/big-00003-of-00003.gguf"));
        assert!(sibling(Path::new("/models/big.gguf"), first, 1).is_err());
        let upper_case = sibling(Path::new("/models/BIG-00001-of-00003.GGUF"), first, 1).unwrap();
        assert_eq!(upper_case, Path::new("/models/BIG-00002-of-00003.GGUF"));
        assert!(sibling(Path::new("/models/big-00001-of-00004.gguf"), first, 1).is_err());
    }

    #[test]
    fn files_are_listed_by_name() {
        let check = |name: &str, is_first: bool, files: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(is_first_part(Path::new(name)), is_first, "{name}");
            assert_eq!(part_files(Path::new(name)), files, "{name}");
        };
        check("a.gguf", true, &["a.gguf"]);
        let both = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"];
        check(both[0], true, &both);
        check(both[1], false, &both);
        check(
            "A-00002-OF-00002.GGUF",
            false,
            &["A-00001-OF-00002.GGUF", "A-00002-OF-00002.GGUF"],
        );
        check(
            "-00001-of-00002.gguf",
            true,
            &["-00001-of-00002.gguf", "-00002-of-00002.gguf"],
        );
        check("a-00001-of-99999.gguf", true, &["a-00001-of-99999.gguf"]);
        check("a-00002-of-99999.gguf", false, &["a-00002-of-99999.gguf"]);
        for single in [
            "a-2-of-2.gguf",
            "a-000002-of-00002.gguf",
            "a-00002-of-000002.gguf",
            "a-00000-of-00002.gguf",
            "a-00003-of-00002.gguf",
            "a-00001-of-00000.gguf",
            "a-+0001-of-00002.gguf",
            "a-00002-of-00002.bin",
            "a_00002-of-00002.gguf",
            "a-00002-of-0000ä.gguf",
            "00002-of-00002.gguf",
        ] {
            check(single, true, &[single]);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_stem_need_not_be_utf_8() {
        use std::os::unix::ffi::OsStrExt;
        let parts = [b"\xff-00001-of-00002.gguf", b"\xff-00002-of-00002.gguf"]
            .map(|name| Path::new("models").join(OsStr::from_bytes(name)));
        assert_eq!(part_files(&parts[1]), parts);
    }
}
