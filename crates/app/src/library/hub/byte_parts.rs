//! Files that were cut at arbitrary offsets, because of a hub's size limit: `NAME.gguf.part1of2`
//! and so on. Concatenating the parts gives the file. (The parts of a split model are separate GGUF
//! files.)

use super::variants::Listed;
use hearth_formats::gguf::each_part_file;
use std::{collections::HashMap, path::Path};

/// Most parts of a file; known ones have up to 9.
const MAX_PARTS: u32 = 99;

/// The name of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartName<'a> {
    /// The path of the joined file.
    pub joined: &'a str,
    /// Counted from 1.
    pub part: u32,
    /// The number of parts, as written in the name.
    count: &'a str,
    /// Digits of a part's number, with leading zeros.
    width: usize,
}

impl<'a> PartName<'a> {
    /// Parses a path; `None` if it does not name a part of a GGUF file.
    pub fn parse(path: &'a str) -> Option<Self> {
        let (joined, suffix) = path.rsplit_once(".part")?;
        let (part, count) = suffix.split_once("of")?;
        let width = if part.starts_with('0') { part.len() } else { 1 };
        let name = Self {
            joined,
            part: number(part)?,
            count,
            width,
        };
        let is_gguf = joined.to_ascii_lowercase().ends_with(".gguf");
        // A file that is itself a part of a split model is not cut again.
        let is_whole = is_gguf && each_part_file(Path::new(joined)).take(2).count() == 1;
        (is_whole && (2..=MAX_PARTS).contains(&name.count()?) && (1..=name.count()?).contains(&name.part))
            .then_some(name)
    }

    fn count(&self) -> Option<u32> {
        number(self.count)
    }

    /// The parts in order; `None` if one is missing.
    pub fn parts(&self, by_path: &HashMap<&str, &Listed>) -> Option<Vec<Listed>> {
        let Self {
            joined, count, width, ..
        } = self;
        // Stops at the first missing part.
        (1..=self.count()?)
            .map(|part| {
                let path = format!("{joined}.part{part:0width$}of{count}");
                by_path.get(path.as_str()).copied().cloned()
            })
            .collect()
    }
}

fn number(digits: &str) -> Option<u32> {
    let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_parsed() {
        for (path, expected) in [
            ("a/m.Q6_K.gguf.part1of2", Some(("a/m.Q6_K.gguf", 1))),
            ("m.GGUF.part9of9", Some(("m.GGUF", 9))),
            ("m.gguf.part02of10", Some(("m.gguf", 2))),
            ("m.gguf", None),
            ("m.gguf.part1of1", None),
            ("m.gguf.part0of2", None),
            ("m.gguf.part3of2", None),
            ("m.gguf.part1of100", None),
            ("m.gguf.part1of4294967297", None),
            ("m.gguf.part+1of2", None),
            ("m.gguf.partof2", None),
            ("m.gguf.part1of2.txt", None),
            ("m.zip.part1of2", None),
            ("m-00001-of-00002.gguf.part1of2", None),
        ] {
            let actual = PartName::parse(path).map(|name| (name.joined, name.part));
            assert_eq!(actual, expected, "{path}");
        }
    }
}
