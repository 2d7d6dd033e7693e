//! Models that are split over several files: `name-00001-of-00003.gguf` and so on.

use super::{GgufProblem, Metadata};
use std::path::{Path, PathBuf};

/// Which part a file is, from its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Counted from 0.
    pub number: u32,
    pub count: u32,
    /// Tensors of all parts together, where the file says so.
    pub tensors: Option<u64>,
}

impl Part {
    /// Reads what the metadata says of splitting; a file that says nothing is the only part.
    pub fn read(metadata: &Metadata) -> Result<Self, GgufProblem> {
        let count = metadata.u32("split.count")?.unwrap_or(1).max(1);
        let number = metadata.u32("split.no")?.unwrap_or(0);
        let tensors = metadata.u64("split.tensors.count")?;
        if number >= count {
            return Err(GgufProblem::metadata(
                "split.no",
                format!("there is no part {number} of {count}, counting from 0"),
            ));
        }
        // Five digits are all that the names have room for.
        if count > 99_999 {
            return Err(GgufProblem::metadata(
                "split.count",
                format!("{count} parts are more than file names can count"),
            ));
        }
        Ok(Self { number, count, tensors })
    }
}

/// The path of a part (counted from 0), given that of another.
pub(super) fn sibling(path: &Path, of: Part, number: u32) -> Result<PathBuf, GgufProblem> {
    let ending = |number: u32| format!("-{:05}-of-{:05}.gguf", number + 1, of.count);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_suffix(&ending(of.number)) {
        Some(stem) => Ok(path.with_file_name(format!("{stem}{}", ending(number)))),
        None => Err(GgufProblem::Split(format!(
            "this file is part {} of {} of a split model, but its name does not end in '{}', so the other parts cannot be \
             found. Give all parts the names they had.",
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
