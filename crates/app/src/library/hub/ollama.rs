//! Models of Ollama's registry, whose manifests have the format of container images.

use super::super::LibraryError;
use super::client::Hub;
use super::remote::{Origin, Remote, RemoteFile, safe_path};
use super::repository::is_sha256;
use super::said::Said;
use super::variants::Kind;
use serde::Deserialize;

/// Media type of the layer that is the GGUF file.
pub(in super::super) const MODEL: &str = "application/vnd.ollama.image.model";

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A manifest, of the registry and on disk.
#[derive(Deserialize)]
pub(in super::super) struct Manifest {
    pub layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Layer {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
}

impl Manifest {
    /// The model's layer and its SHA-256.
    pub fn model(&self) -> Option<(&Layer, &str)> {
        let layer = self.layers.iter().find(|layer| layer.media_type == MODEL)?;
        let hash = layer.digest.strip_prefix("sha256:").filter(|hash| is_sha256(hash))?;
        Some((layer, hash))
    }
}

/// Asks the registry for the files of a model.
pub(in super::super) fn remote(hub: &Hub, name: &str, tag: &str) -> Result<Remote, LibraryError> {
    let short = name.strip_prefix("library/").unwrap_or(name);
    let shown = format!("{short}:{tag}");
    let url = format!("{}/v2/{name}/manifests/{tag}", hub.ollama);
    let manifest: Manifest = hub.json(&url, &shown, Some(MANIFEST))?;
    let (layer, hash) = manifest.model().ok_or_else(|| LibraryError::Hub {
        what: shown.clone(),
        is_temporary: false,
        why: "the registry has it in another form than GGUF".to_owned(),
    })?;
    let file = format!("{}-{tag}.gguf", short.rsplit('/').next().unwrap_or_default());
    let names = ["ollama.com"].into_iter().chain(name.split('/')).chain([tag, &file]);
    let path = safe_path(names).ok_or_else(|| LibraryError::UnsafeName(file.clone()))?;
    Ok(Remote {
        files: vec![RemoteFile {
            name: shown.clone(),
            url: format!("{}/v2/{name}/blobs/{}", hub.ollama, layer.digest),
            path,
            size: layer.size,
            sha256: Some(hash.to_lowercase()),
            parts: Vec::new(),
            said: Said::default(),
        }],
        origin: Origin {
            source: format!("ollama://{shown}"),
            revision: Some(layer.digest.clone()),
            license: None,
        },
        kind: Kind::Model,
        name: shown,
    })
}
