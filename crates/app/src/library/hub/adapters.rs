//! Adapters in a repository of the hub: PEFT folders, and GGUF files whose metadata marks them.

use super::super::LibraryError;
use super::client::{Failure, Hub, ResponseRange};
use super::deadline::Deadline;
use super::header;
use super::remote::RemoteFile;
use super::variants::{Kind, Listed, Variant};
use hearth_formats::{
    adapter::{MAX_PEFT_CONFIG_BYTES, PEFT_CONFIG, PEFT_TENSORS},
    hex,
};
use hearth_protocol::FetchFailure;
use sha2::{Digest, Sha256};
use std::{collections::HashMap, io::Read};

/// Most adapters of a repository, which may hold one per checkpoint.
const MAX_ADAPTERS: usize = 50;

/// Most files of a repository whose headers are requested.
const MAX_CANDIDATES: usize = 8;

/// Bytes at the start of a GGUF file that contain the entry `general.type`.
const TYPE_BYTES: u64 = 64 << 10;

/// Name of an adapter in the root folder of a repository.
const PEFT: &str = "PEFT";

/// Prefix of the hub's tag for the base of an adapter.
const BASE_TAG: &str = "base_model:adapter:";

/// Tags of repositories with adapters.
const TAGS: [&str; 3] = ["lora", "peft", "gguf-my-lora"];

/// Most bytes of a base model's name.
const MAX_BASE_BYTES: usize = 200;

/// The information on adapters in a repository's tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tagged {
    /// Whether it has adapters.
    pub is_adapter: bool,
    /// `OWNER/NAME` of their base model.
    pub base: Option<String>,
}

impl Tagged {
    pub(super) fn from_tags(tags: &[String]) -> Self {
        let base = tags.iter().find_map(|tag| tag.strip_prefix(BASE_TAG));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let is_id = |base: &str| base.len() <= MAX_BASE_BYTES && base.split('/').count() == 2;
        let base = base.filter(|base| is_id(base) && base.chars().all(is_plain));
        Self {
            is_adapter: base.is_some() || tags.iter().any(|tag| TAGS.contains(&tag.as_str())),
            base: base.map(str::to_owned),
        }
    }
}

/// The PEFT adapters among a repository's files: folders with both of their files.
pub(super) fn peft(files: &[Listed]) -> Vec<Variant> {
    let by_path: HashMap<&str, &Listed> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut adapters: Vec<Variant> = files
        .iter()
        .filter_map(|config| {
            let folder = config.path.strip_suffix(PEFT_CONFIG)?;
            let name = folder.strip_suffix('/');
            (folder.is_empty() || name.is_some()).then_some(())?;
            let tensors = by_path.get(format!("{folder}{PEFT_TENSORS}").as_str())?;
            Some(Variant {
                name: name.unwrap_or(PEFT).to_owned(),
                files: vec![config.clone(), (*tensors).clone()],
                joined: None,
                kind: Kind::PeftAdapter,
            })
        })
        .collect();
    // The root folder is first.
    adapters.sort_by_key(|variant| (variant.file().matches('/').count(), variant.file().to_owned()));
    adapters.truncate(MAX_ADAPTERS);
    adapters
}

/// Whether a GGUF file may be an adapter, judged by its name and the repository's tags.
pub(super) fn may_be_adapter(variant: &Variant, is_tagged: bool) -> bool {
    let name = variant.file().to_lowercase();
    let is_named = name.contains("lora") || name.contains("adapter");
    variant.kind == Kind::Model && variant.files.len() == 1 && (is_tagged || is_named)
}

/// Indices of the variants that may be adapters, limited because their headers are requested.
pub(super) fn candidates(variants: &[Variant], is_tagged: bool) -> Vec<usize> {
    let indexed = variants.iter().enumerate();
    let candidates = indexed.filter(|(_, variant)| may_be_adapter(variant, is_tagged));
    candidates.map(|(index, _)| index).take(MAX_CANDIDATES).collect()
}

/// Whether the metadata at the start of a GGUF file marks an adapter.
///
/// # Errors
/// [`LibraryError::Hub`]
pub(super) fn is_gguf_adapter(hub: &Hub, file: &RemoteFile) -> Result<bool, LibraryError> {
    let start = header::start(hub, file, TYPE_BYTES).map_err(|failure| failure.error(&file.name))?;
    Ok(has_adapter_type(&start))
}

/// Searches for the entry `general.type = "adapter"`. The reader of adapters refuses a file whose
/// entry is wrong.
fn has_adapter_type(start: &[u8]) -> bool {
    const STRING: u32 = 8;
    let encode = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let entry = [encode("general.type"), STRING.to_le_bytes().to_vec(), encode("adapter")].concat();
    start.starts_with(b"GGUF") && start.windows(entry.len()).any(|bytes| bytes == entry)
}

/// Sets the hash of a PEFT configuration, which the hub publishes for large files only. It requests
/// the file at the repository's commit; the later download must have the same bytes.
///
/// # Errors
/// [`LibraryError::Hub`]
pub(super) fn hash_config(hub: &Hub, file: &mut RemoteFile) -> Result<(), LibraryError> {
    if file.sha256.is_some() {
        return Ok(());
    }
    let failed = |failure: Failure| failure.error(&file.name);
    if !file.name.ends_with(PEFT_CONFIG) {
        return Err(failed(Failure::Final(FetchFailure::NoChecksum)));
    }
    if file.size > MAX_PEFT_CONFIG_BYTES {
        let (length, limit) = (file.size, MAX_PEFT_CONFIG_BYTES);
        return Err(failed(Failure::Final(FetchFailure::ConfigTooLong { length, limit })));
    }
    let response = hub.get_until(&file.url, None, Deadline::new(hub)).map_err(failed)?;
    ResponseRange::from_response(&response).map_err(failed)?;
    let mut bytes = Vec::new();
    response
        .into_body()
        .into_reader()
        .take(file.size + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(Failure::broken(&error)))?;
    if bytes.len() as u64 != file.size {
        return Err(failed(Failure::Final(FetchFailure::OtherSize)));
    }
    file.sha256 = Some(hex(Sha256::digest(&bytes)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str) -> Listed {
        Listed {
            path: path.to_owned(),
            size: 1,
            sha256: None,
        }
    }

    #[test]
    fn a_peft_folder_has_both_files() {
        let files = [
            "checkpoint-9/adapter_config.json",
            "checkpoint-9/adapter_model.safetensors",
            "adapter_config.json",
            "adapter_model.safetensors",
            "half/adapter_config.json",
            "pickled/adapter_config.json",
            "pickled/adapter_model.bin",
            "not_adapter_config.json",
        ]
        .map(listed);
        let names: Vec<String> = peft(&files).into_iter().map(|variant| variant.name).collect();
        assert_eq!(names, ["PEFT", "checkpoint-9"]);
        let many: Vec<Listed> = (0..100)
            .flat_map(|n| [PEFT_CONFIG, PEFT_TENSORS].map(|file| listed(&format!("c{n}/{file}"))))
            .collect();
        assert_eq!(peft(&many).len(), MAX_ADAPTERS);
    }

    #[test]
    fn tags_name_the_base() {
        let parse = |tags: &[&str]| Tagged::from_tags(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>());
        let tagged = parse(&["gguf", "base_model:o/n", "base_model:adapter:o/n"]);
        assert_eq!((tagged.is_adapter, tagged.base.as_deref()), (true, Some("o/n")));
        assert!(parse(&["lora"]).is_adapter);
        assert_eq!(
            parse(&["gguf", "base_model:quantized:o/n", "base_model:adapter:x"]),
            Tagged::default()
        );
        assert_eq!(parse(&["base_model:adapter:o/\u{202e}n"]), Tagged::default());
    }

    #[test]
    fn the_type_is_found_at_the_start_of_a_file() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
        let read = |file: &str| std::fs::read(format!("{path}{file}")).expect("a fixture");
        assert!(has_adapter_type(&read("adapters/llama.gguf")));
        assert!(!has_adapter_type(&read("models/llama.gguf")));
        assert!(!has_adapter_type(b"GGUF") && !has_adapter_type(b""));
    }
}
