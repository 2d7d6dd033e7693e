//! Methods of [`App`] for models that are not on this machine: the catalog and the hub.

use crate::{
    App,
    library::{
        self, Hub,
        catalog::{self, Entry},
        hub::{Expected, Found, HeaderFile, Reference, Repository, Variant},
    },
    shared::Shared,
    store::adapter,
    wire::{
        CatalogModel, Device, Expectation, HubKind, HubModel, HubRepository, HubSort, HubVariant, LoadSettings,
        Problem, ProblemCode, RemoteModel,
    },
};
use hearth_protocol::{DraftChoice, Estimate, PlanRequest};
use std::{cmp::Reverse, collections::HashMap};

/// Models of the catalog that are recommended first.
const RECOMMENDED: usize = 3;

impl App {
    /// The models of the catalog, those first that suit this machine best. Starts a worker if there
    /// is none, to ask what the machine is.
    pub async fn catalog(&self) -> Result<Vec<CatalogModel>, Problem> {
        let devices = self.measured_devices().await?;
        self.shared
            .blocking(move |shared| {
                let models = shared.models()?;
                let here = |entry: &Entry| {
                    let found = models.iter().find(|it| it.entry == Some(entry) && it.metadata.is_ok());
                    found.map(|model| model.id.clone())
                };
                let expected = Expected(&devices);
                let sorted = recommended_first(catalog::entries(), &expected).into_iter();
                Ok(sorted
                    .map(|entry| CatalogModel {
                        id: entry.id.clone(),
                        name: entry.name.clone(),
                        description: entry.description.clone(),
                        license: entry.license.clone(),
                        repository: entry.repository.clone(),
                        quantization: entry.quantization(),
                        file_size: entry.size,
                        model: here(entry),
                        expectation: expected.of_size(entry.size).into(),
                        source: entry.id.clone(),
                    })
                    .collect())
            })
            .await
    }

    /// The devices. A CPU that was never measured is, which takes some seconds: without it, what is
    /// expected of a model is a guess. GPUs are checked before their first use.
    async fn measured_devices(&self) -> Result<Vec<Device>, Problem> {
        let devices = self.devices().await?;
        let is_measured = |device: &Device| device.backends.iter().any(|option| option.check.is_some());
        match devices.first() {
            Some(cpu) if !is_measured(cpu) && !*self.shared.answering().borrow() && !self.is_training() => {
                self.check_device(cpu.id.clone()).await.or(Ok(devices))
            }
            _ => Ok(devices),
        }
    }

    /// Searches the hub.
    ///
    /// # Errors
    /// The network is switched off, or the hub cannot be asked.
    pub async fn search_hub(&self, query: String, sort: HubSort, kind: HubKind) -> Result<Vec<HubModel>, Problem> {
        let (found, devices) = tokio::join!(
            self.shared
                .asking(move |shared| Ok(shared.hub()?.search(&query, sort, kind)?)),
            self.devices()
        );
        // Without devices the list has no expectations.
        let devices = devices.unwrap_or_default();
        let expected = Expected(&devices);
        Ok(found?.into_iter().map(|found| hub_model(found, &expected)).collect())
    }

    /// Repositories with GGUF files that were converted from a repository.
    ///
    /// # Errors
    /// As [`App::search_hub`].
    pub async fn hub_conversions(&self, id: String) -> Result<Vec<HubModel>, Problem> {
        let devices = self.devices().await.unwrap_or_default();
        self.shared
            .asking(move |shared| {
                let hub = shared.hub()?;
                let Reference::Hub { repository, .. } = Reference::parse(&format!("hf.co/{id}"), &hub)? else {
                    return Err(library::LibraryError::BadReference(id).into());
                };
                let expected = Expected(&devices);
                let found = hub.conversions(&repository)?.into_iter();
                Ok(found.map(|found| hub_model(found, &expected)).collect())
            })
            .await
    }

    /// The models in a repository of the hub.
    ///
    /// # Errors
    /// As [`App::search_hub`].
    pub async fn hub_repository(&self, id: String) -> Result<HubRepository, Problem> {
        let devices = self.devices().await.unwrap_or_default();
        self.shared
            .asking(move |shared| {
                let hub = shared.hub()?;
                let Reference::Hub {
                    repository, revision, ..
                } = Reference::parse(&format!("hf.co/{id}"), &hub)?
                else {
                    return Err(library::LibraryError::BadReference(id).into());
                };
                let mut found = Repository::get(&hub, &repository, &revision)?;
                found.identify_adapters(&hub);
                Ok(repository_to_wire(shared, &hub, &found, &Expected(&devices))?)
            })
            .await
    }

    /// Reads the header of a model that is not on this machine, and plans it.
    ///
    /// # Errors
    /// As [`App::search_hub`]; the file is no model, or Hearth does not support it.
    pub async fn inspect_remote(&self, source: String) -> Result<RemoteModel, Problem> {
        let fetched = self.shared.asking(move |shared| {
            let hub = shared.hub()?;
            let reference = Reference::parse(&source, &hub)?;
            let remote = library::remote(&hub, &reference)?;
            let header = HeaderFile::fetch(&hub, &remote, shared.library.folder())?;
            let model = shared.library.by_path(header.path());
            let metadata = model.metadata.map_err(|message| Problem {
                code: ProblemCode::FileInvalid,
                message: without_path(&message, header.path()),
            })?;
            Ok((header, metadata, model.name))
        });
        let (header, metadata, name) = fetched.await?;
        let settings = LoadSettings::from_settings(&self.shared.settings(), "");
        let request = PlanRequest {
            // A measurement would slow an answer or a run down, and they it.
            measure_speed: !*self.shared.answering().borrow() && !self.is_training(),
            ..settings.plan(header.path().to_owned(), DraftChoice::None)
        };
        let plan = self.shared.host.plan(request).await.map_err(|problem| Problem {
            message: without_path(&problem.message, header.path()),
            ..problem
        })?;
        Ok(RemoteModel {
            name,
            architecture: metadata.architecture,
            quantization: metadata.quantization,
            parameters: metadata.parameters,
            context_trained: metadata.context_trained,
            file_size: metadata.file_size,
            plan,
        })
    }
}

/// A message with the file's name in place of its path. The header was written to a temporary file,
/// whose path means nothing to the user.
fn without_path(message: &str, path: &std::path::Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    message.replace(&path.display().to_string(), &name)
}

/// The catalog's entries: first the largest that runs well, then the next one of another family,
/// then the fastest; the others in the catalog's order.
fn recommended_first<'a>(entries: &'a [Entry], expected: &Expected) -> Vec<&'a Entry> {
    // The first entry is bundled.
    let mut suited: Vec<&Entry> = entries
        .iter()
        .skip(1)
        .filter(|entry| expected.runs_well(entry.size))
        .collect();
    suited.sort_by_key(|entry| Reverse(entry.size));
    let mut chosen: Vec<&Entry> = suited.first().copied().into_iter().collect();
    let family = |entry: &Entry| entry.id.split('-').next().unwrap_or_default().to_owned();
    chosen.extend(
        suited
            .iter()
            .find(|it| chosen.iter().all(|other| family(other) != family(it))),
    );
    let fastest = suited.iter().rev().chain(suited.iter());
    for entry in fastest {
        if chosen.len() < RECOMMENDED && !chosen.contains(entry) {
            chosen.push(entry);
        }
    }
    let others = entries.iter().filter(|entry| !chosen.contains(entry));
    chosen.iter().copied().chain(others).collect()
}

fn hub_model(found: Found, expected: &Expected) -> HubModel {
    let expectation = found.parameters.filter(|_| !expected.0.is_empty());
    HubModel {
        expectation: expectation.map(|parameters| expected.of_parameters(parameters).into()),
        id: found.id,
        downloads: found.downloads,
        likes: found.likes,
        updated_at: found.updated_at,
        architecture: found.architecture,
        is_supported: found.is_supported,
        parameters: found.parameters,
        context_trained: found.context_trained,
        is_gated: found.is_gated,
        is_adapter: found.tagged.is_adapter,
        base: found.tagged.base,
    }
}

fn repository_to_wire(
    shared: &Shared,
    hub: &Hub,
    found: &Repository,
    expected: &Expected,
) -> Result<HubRepository, crate::store::StoreError> {
    let models = shared.models()?;
    let sources: HashMap<&str, &str> = models
        .iter()
        .filter_map(|model| Some((model.origin.as_ref()?.source.as_str(), model.id.as_str())))
        .collect();
    let adapters = shared.store.read(|t| adapter::list(t))?;
    let own = |source: &str| {
        let is_it = |row: &&adapter::Adapter| {
            let origin = shared.library.adapter_origin(&row.path);
            origin.is_some_and(|origin| origin.source == source && origin.revision.as_ref() == Some(&found.revision))
        };
        adapters.iter().find(is_it).map(|row| row.id)
    };
    let runs_well = |variant: &&Variant| !variant.kind.is_adapter() && expected.runs_well(variant.size());
    let preferred = found.preferred().filter(runs_well);
    let largest = || found.variants.iter().rev().find(runs_well);
    let recommended = preferred.or_else(largest);
    let variants = found.variants.iter().map(|variant| {
        let source = found.source(variant);
        HubVariant {
            name: variant.name.clone(),
            file: variant.file().to_owned(),
            files: u32::try_from(variant.files.len()).unwrap_or(u32::MAX),
            size: variant.size(),
            expectation: expected.of_size(variant.size()).into(),
            is_recommended: recommended == Some(variant),
            is_adapter: variant.kind.is_adapter(),
            adapter: variant.kind.is_adapter().then(|| own(&source)).flatten(),
            model: sources.get(source.as_str()).map(|id| (*id).to_owned()),
            source,
        }
    });
    Ok(HubRepository {
        id: found.id.clone(),
        page: format!("{}/{}", hub.endpoint, found.id),
        license: found.license.clone(),
        is_gated: found.is_gated,
        base: found.tagged.base.clone(),
        variants: variants.collect(),
    })
}

impl From<Estimate> for Expectation {
    fn from(estimate: Estimate) -> Self {
        Self {
            verdict: estimate.verdict,
            tokens_per_second: estimate.tokens_per_second,
            is_measured: estimate.is_measured,
        }
    }
}
