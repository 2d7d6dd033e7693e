//! The models in a repository: files of one quantization belong together.

use super::super::LibraryError;
use super::adapters;
use super::byte_parts::PartName;
use super::reference::Selection;
use hearth_formats::gguf::{each_part_file, is_first_part};
use hearth_protocol::ModelsReason;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, path::Path};

/// The quantizations from which one is chosen if the user names none, best first: small, with
/// little loss against the original.
const PREFERRED: [&str; 9] = [
    "Q4_K_M",
    "UD-Q4_K_XL",
    "Q4_K_S",
    "Q4_0",
    "Q4_1",
    "IQ4_NL",
    "IQ4_XS",
    "MXFP4",
    "Q5_K_M",
];

/// Most files of a repository that are examined, since a server's list is untrusted. Large
/// repositories have hundreds of files.
const MAX_LISTED: usize = 50_000;

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path in the repository.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in lower-case hexadecimal, if the hub has it.
    pub sha256: Option<String>,
}

/// The kind of a variant: a model, or an adapter and its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A model in a GGUF file, or several.
    #[default]
    Model,
    /// A LoRA adapter in a GGUF file.
    GgufAdapter,
    /// A LoRA adapter as PEFT saves it: two files in a folder.
    PeftAdapter,
}

impl Kind {
    /// Whether it is an adapter.
    pub fn is_adapter(self) -> bool {
        self != Self::Model
    }
}

/// A model or an adapter of a repository. A split model has several files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Name of the quantization, or else of the file.
    pub name: String,
    /// Its files in order.
    pub files: Vec<Listed>,
    /// The path of the joined file, if it was cut at arbitrary offsets.
    pub joined: Option<String>,
    /// Model or adapter. A GGUF file counts as a model until its header was requested.
    pub kind: Kind,
}

impl Variant {
    /// Total size in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Path of its first file in the repository.
    pub fn file(&self) -> &str {
        self.files.first().map_or("", |file| &file.path)
    }

    /// The path by which it is selected: the path of the joined file, or else of its first file.
    pub fn path(&self) -> &str {
        self.joined.as_deref().unwrap_or_else(|| self.file())
    }
}

/// The models among a repository's files, from small to large, then its PEFT adapters. Projectors,
/// importance matrices and incomplete split models are left out.
pub(super) fn variants(files: &[Listed]) -> Vec<Variant> {
    let files = &files[..files.len().min(MAX_LISTED)];
    let mut by_path: HashMap<&str, &Listed> = HashMap::with_capacity(files.len());
    let (mut first_files, mut split_names) = (Vec::new(), Vec::new());
    for file in files {
        let is_new = by_path.insert(&file.path, file).is_none();
        if is_new && is_model(&file.path) && is_first_part(Path::new(&file.path)) {
            first_files.push(file);
        }
        let part = PartName::parse(&file.path).filter(|name| is_new && name.part == 1);
        split_names.extend(part.filter(|name| is_model(name.joined)));
    }
    let mut variants: Vec<Variant> = first_files
        .into_iter()
        .filter_map(|first| {
            // Stops at the first missing part.
            let parts = each_part_file(Path::new(&first.path)).map(|part| {
                let path = part.to_str()?.replace('\\', "/");
                by_path.get(path.as_str()).copied().cloned()
            });
            Some(Variant {
                name: quantization(&first.path).unwrap_or_else(|| stem(&first.path).to_owned()),
                files: parts.collect::<Option<Vec<Listed>>>()?,
                joined: None,
                kind: Kind::Model,
            })
        })
        .collect();
    // Some repositories also have the whole file.
    let split_names = split_names
        .into_iter()
        .filter(|name| !by_path.contains_key(name.joined));
    variants.extend(split_names.filter_map(|name| {
        Some(Variant {
            name: quantization(name.joined).unwrap_or_else(|| stem(name.joined).to_owned()),
            files: name.parts(&by_path)?,
            joined: Some(name.joined.to_owned()),
            kind: Kind::Model,
        })
    }));
    variants.sort_by_cached_key(|variant| (variant.size(), variant.file().to_owned()));
    // Files of one quantization are distinguished by their file names.
    let mut count: HashMap<String, usize> = HashMap::new();
    variants
        .iter()
        .for_each(|variant| *count.entry(variant.name.clone()).or_default() += 1);
    for variant in &mut variants {
        if count[&variant.name] > 1 {
            variant.name = stem(variant.path()).to_owned();
        }
    }
    variants.extend(adapters::peft(files));
    variants
}

fn is_model(path: &str) -> bool {
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    name.ends_with(".gguf") && !name.contains("mmproj") && !name.contains("imatrix")
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    // Without the part number.
    stem.split_once("-00001-of-").map_or(stem, |(stem, _)| stem)
}

/// The quantization in a file's name, in upper case: `Q4_K_M`, `UD-Q4_K_XL`, `BF16`.
pub fn quantization(path: &str) -> Option<String> {
    let stem = stem(path).to_uppercase();
    let words: Vec<&str> = stem.split(['-', '.']).collect();
    let at = words.iter().rposition(|word| is_quantization(word))?;
    match at.checked_sub(1).map(|before| words[before]) {
        Some("UD") => Some(format!("UD-{}", words[at])),
        _ => Some(words[at].to_owned()),
    }
}

fn is_quantization(word: &str) -> bool {
    let digits = ["IQ", "TQ", "Q"].iter().find_map(|prefix| word.strip_prefix(prefix));
    let is_name = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_block = digits.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('_'));
    is_name && (is_block || word.starts_with("MXFP4") || ["F16", "FP16", "BF16", "F32", "FP32"].contains(&word))
}

/// Returns the model in the best of the preferred quantizations.
pub(super) fn preferred(variants: &[Variant]) -> Option<&Variant> {
    let mut names = PREFERRED.iter();
    names.find_map(|name| variants.iter().find(|variant| variant.name == *name))
}

/// Returns the model that the user selected.
///
/// # Errors
/// No variant matches; the error lists the variants' names.
pub(super) fn select<'a>(
    variants: &'a [Variant],
    selection: &Selection,
    repository: &str,
) -> Result<&'a Variant, LibraryError> {
    let matches = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let selected = match selection {
        Selection::Automatic => preferred(variants).or_else(|| variants.first()),
        Selection::Quantization(name) => variants
            .iter()
            .find(|variant| matches(&variant.name, name))
            .or_else(|| {
                variants
                    .iter()
                    .find(|variant| matches(variant.name.trim_start_matches("UD-"), name))
            })
            .or_else(|| variants.iter().find(|variant| matches(stem(variant.path()), name))),
        Selection::File(path) => variants
            .iter()
            .find(|variant| variant.path() == path || variant.files.iter().any(|file| file.path == *path)),
    };
    let wanted = match selection {
        Selection::Automatic => None,
        Selection::Quantization(name) | Selection::File(name) => Some(name.clone()),
    };
    selected.ok_or_else(|| {
        let repository = repository.to_owned();
        let known: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
        LibraryError::NotFound(match wanted {
            Some(wanted) if !known.is_empty() => ModelsReason::NoSuchVariant {
                repository,
                wanted,
                known,
            },
            _ => ModelsReason::NothingToDownload { repository },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn listed(path: &str, size: u64) -> Listed {
        Listed {
            path: path.to_owned(),
            size,
            sha256: None,
        }
    }

    #[test]
    fn the_quantization_is_found_in_a_name() {
        for (path, expected) in [
            ("Qwen3-0.6B-Q4_K_M.gguf", Some("Q4_K_M")),
            ("qwen2.5-0.5b-instruct-q4_k_m.gguf", Some("Q4_K_M")),
            ("SmolLM2-135M-Instruct.Q4_1.gguf", Some("Q4_1")),
            ("Qwen3-8B-UD-Q4_K_XL.gguf", Some("UD-Q4_K_XL")),
            ("BF16/Big-BF16-00001-of-00003.gguf", Some("BF16")),
            ("gpt-oss-20b-mxfp4.gguf", Some("MXFP4")),
            ("Model-IQ3_XXS.gguf", Some("IQ3_XXS")),
            ("Qwen3-Q8.gguf", None),
            ("Model-Q4_K_M (2).gguf", None),
            ("model.gguf", None),
            (".gguf", None),
        ] {
            assert_eq!(quantization(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn files_of_one_model_belong_together() {
        let files = [
            listed("README.md", 1),
            listed("m-Q8_0-00002-of-00002.gguf", 30),
            listed("m-Q8_0-00001-of-00002.gguf", 40),
            listed("m-Q4_K_M.gguf", 35),
            listed("mmproj-m-F16.gguf", 5),
            listed("m.imatrix.gguf", 5),
            // Its second part is missing.
            listed("m-F16-00001-of-00002.gguf", 80),
            listed("old/m-Q6_K.gguf", 50),
            listed("new/m2-Q6_K.gguf", 51),
        ];
        let actual = variants(&files);
        let summary: Vec<_> = actual
            .iter()
            .map(|variant| (variant.name.as_str(), variant.files.len(), variant.size()))
            .collect();
        assert_eq!(
            summary,
            [
                ("Q4_K_M", 1, 35),
                ("m-Q6_K", 1, 50),
                ("m2-Q6_K", 1, 51),
                ("Q8_0", 2, 70)
            ]
        );
        let select = |selection: Selection| select(&actual, &selection, "o/n").map(|variant| variant.name.clone());
        assert_eq!(select(Selection::Automatic).unwrap(), "Q4_K_M");
        assert_eq!(select(Selection::Quantization("q8_0".into())).unwrap(), "Q8_0");
        assert_eq!(
            select(Selection::File("m-Q8_0-00002-of-00002.gguf".into())).unwrap(),
            "Q8_0"
        );
        let error = select(Selection::Quantization("Q2_K".into())).unwrap_err().to_string();
        assert!(error.contains("Q2_K") && error.contains("Q8_0"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_is_one_model() {
        let files = [
            listed("m.Q6_K.gguf.part2of2", 30),
            listed("m.Q6_K.gguf.part1of2", 40),
            // Its second part is missing.
            listed("m.Q8_0.gguf.part1of3", 40),
            listed("m.Q8_0.gguf.part3of3", 40),
            // The whole file is listed too.
            listed("m.Q4_0.gguf.part1of2", 10),
            listed("m.Q4_0.gguf.part2of2", 10),
            listed("m.Q4_0.gguf", 20),
            listed("mmproj.gguf.part1of2", 1),
            listed("mmproj.gguf.part2of2", 1),
        ];
        let actual = variants(&files);
        let summary: Vec<_> = actual
            .iter()
            .map(|variant| {
                (
                    variant.name.as_str(),
                    variant.path(),
                    variant.files.len(),
                    variant.size(),
                )
            })
            .collect();
        assert_eq!(
            summary,
            [("Q4_0", "m.Q4_0.gguf", 1, 20), ("Q6_K", "m.Q6_K.gguf", 2, 70)]
        );
        assert_eq!(actual[1].file(), "m.Q6_K.gguf.part1of2");
        for path in ["m.Q6_K.gguf", "m.Q6_K.gguf.part2of2"] {
            let selected = select(&actual, &Selection::File(path.to_owned()), "o/n").expect("it is there");
            assert_eq!(selected.name, "Q6_K", "{path}");
        }
    }

    #[test]
    fn the_largest_models_of_a_large_repository_are_listed() {
        let files: Vec<Listed> = (1..=1500).map(|at| listed(&format!("m{at}.gguf"), at)).collect();
        assert_eq!(variants(&files).last().map(Variant::size), Some(1500));
    }

    #[test]
    fn a_hostile_list_is_read_in_linear_time_and_cut() {
        // Building a path for each claimed part would take half a minute.
        let begin = Instant::now();
        let incomplete: Vec<Listed> = (0..100_000)
            .map(|at| listed(&format!("a{at}-00001-of-01000.gguf"), 1))
            .collect();
        assert_eq!(variants(&incomplete), []);
        // A whole model, whose first part is listed many times.
        let parts = (1..=1000).map(|part| listed(&format!("a-{part:05}-of-01000.gguf"), 1));
        let repeated_first = (0..20_000).map(|_| listed("a-00001-of-01000.gguf", 1));
        assert_eq!(variants(&parts.chain(repeated_first).collect::<Vec<_>>()).len(), 1);
        let incomplete_parts: Vec<Listed> = (0..100_000)
            .map(|at| listed(&format!("a{at}.gguf.part1of99"), 1))
            .collect();
        assert_eq!(variants(&incomplete_parts), []);
        let single: Vec<Listed> = (0..100_000).map(|at| listed(&format!("m{at}.gguf"), 1)).collect();
        assert_eq!(variants(&single).len(), MAX_LISTED);
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    }
}
