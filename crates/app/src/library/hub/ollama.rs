//! Models of Ollama's registry, whose manifests have the format of container images.

use super::super::LibraryError;
use super::client::{Failure, Hub};
use super::remote::{Origin, Remote, RemoteFile, safe_path};
use super::repository::is_sha256;
use super::server_info::ServerInfo;
use super::variants::Kind;
use hearth_protocol::FetchFailure;
use serde::Deserialize;

/// Media type of the layer with the GGUF file.
pub(in super::super) const MODEL: &str = "application/vnd.ollama.image.model";

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A manifest, from the registry or on disk.
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

/// Requests the manifest of a model from the registry.
pub(in super::super) fn remote(hub: &Hub, name: &str, tag: &str) -> Result<Remote, LibraryError> {
    let short = name.strip_prefix("library/").unwrap_or(name);
    let display_name = format!("{short}:{tag}");
    let url = format!("{}/v2/{name}/manifests/{tag}", hub.ollama);
    let failed = |failure: Failure| failure.error(&display_name);
    let manifest: Manifest = hub.json(&url, Some(MANIFEST)).map_err(failed)?;
    let layer = manifest.model().ok_or(Failure::Final(FetchFailure::OtherFormat));
    let (layer, hash) = layer.map_err(failed)?;
    let file = format!("{}-{tag}.gguf", short.rsplit('/').next().unwrap_or_default());
    let names = ["ollama.com"].into_iter().chain(name.split('/')).chain([tag, &file]);
    let path = safe_path(names).ok_or_else(|| LibraryError::UnsafeName(file.clone()))?;
    Ok(Remote {
        files: vec![RemoteFile {
            name: display_name.clone(),
            url: format!("{}/v2/{name}/blobs/{}", hub.ollama, layer.digest),
            path,
            size: layer.size,
            sha256: Some(hash.to_lowercase()),
            parts: Vec::new(),
            server_info: ServerInfo::default(),
        }],
        origin: Origin {
            source: format!("ollama://{display_name}"),
            revision: Some(layer.digest.clone()),
            license: None,
        },
        kind: Kind::Model,
        name: display_name,
    })
}
