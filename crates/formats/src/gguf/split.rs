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

/// Returns the path of part `number` (from 0), given the path of part `of`.
pub(super) fn sibling(path: &Path, of: Part, number: u32) -> Result<PathBuf, GgufProblem> {
    let ending = |number: u32| format!("-{:05}-of-{:05}.gguf", number + 1, of.count);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_suffix(&ending(of.number)) {
        Some(stem) => Ok(path.with_file_name(format!("{stem}{}", ending(number)))),
        None => Err(GgufProblem::Split(format!(
            "this file is part {} of {} of a split model, but its name does not end in '{}', so the other parts \
             cannot be \
             found. Rename all parts to their original names.",
            of.number + 1,
            of.count,
            ending(of.number)
        ))),
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
        assert!(sibling(Path::new("/models/big-00001-of-00004.gguf"), of, 1).is_err());
    }
}
