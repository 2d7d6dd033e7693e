//! Methods of [`App`] for models that are not on this machine: the catalog and the hub.

use crate::{
    App,
    library::{
        self, Hub,
        catalog::{self, Entry},
        hub::{Expected, HeaderFile, Reference, Repository, SearchResult, Variant},
    },
    recommended::recommended_first,
    remeasure::{self, Check},
    shared::Shared,
    store::adapter,
    wire::{
        CatalogModel, Device, Expectation, HubKind, HubModel, HubRepository, HubSort, HubVariant, LoadSettings,
        Problem, ProblemCode, RemoteModel,
    },
};
use hearth_protocol::{DraftChoice, Estimate, PlanRequest};
use serde_json::Value;
use std::{collections::HashMap, path::Path};

impl App {
    /// The models of the catalog, the recommended ones for this machine first. Starts a worker if
    /// there is none, to list the devices.
    pub async fn catalog(&self) -> Result<Vec<CatalogModel>, Problem> {
        let (devices, is_disturbed) = self.measured_devices().await?;
        remeasure::start(&self.shared, &devices, is_disturbed);
        self.shared
            .blocking(move |shared| {
                let models = shared.models()?;
                let local_id = |entry: &Entry| {
                    let mut readable = models.iter().filter(|model| model.metadata.is_ok());
                    let local = readable.find(|model| model.entry == Some(entry));
                    local.map(|model| model.id.clone())
                };
                let expected = Expected(&devices);
                let sorted = recommended_first(catalog::entries(), &expected).into_iter();
                Ok(sorted
                    .map(|entry| CatalogModel {
                        id: entry.id.clone(),
                        name: entry.name.clone(),
                        license: entry.license.clone(),
                        repository: entry.repository.clone(),
                        quantization: entry.quantization(),
                        file_size: entry.size,
                        model: local_id(entry),
                        expectation: expected.of_size(entry.size).into(),
                        source: entry.id.clone(),
                    })
                    .collect())
            })
            .await
    }

    /// The devices. Checks the CPU first if it was never measured, which takes some seconds:
    /// without a measurement, expectations follow from an assumed speed. GPUs are checked before
    /// their first use. Also returns whether an answer, a load or a run disturbed this check.
    async fn measured_devices(&self) -> Result<(Vec<Device>, bool), Problem> {
        let devices = self.devices().await?;
        let is_measured = |device: &Device| device.backends.iter().any(|option| option.check.is_some());
        match devices.first() {
            Some(cpu) if !is_measured(cpu) && !self.shared.is_computing() => {
                match remeasure::check(&self.shared, cpu.id.clone()).await {
                    Ok(Check { devices, is_disturbed }) => Ok((devices, is_disturbed)),
                    Err(_) => Ok((devices, false)),
                }
            }
            _ => Ok((devices, false)),
        }
    }

    /// Searches the hub.
    ///
    /// # Errors
    /// The network is switched off, or the hub cannot be asked.
    pub async fn search_hub(&self, query: String, sort: HubSort, kind: HubKind) -> Result<Vec<HubModel>, Problem> {
        let (repositories, devices) = tokio::join!(
            self.shared
                .asking(move |shared| Ok(shared.hub()?.search(&query, sort, kind)?)),
            self.devices()
        );
        // Without devices the list has no expectations.
        let devices = devices.unwrap_or_default();
        let expected = Expected(&devices);
        let models = repositories?.into_iter().map(|result| hub_model(result, &expected));
        Ok(models.collect())
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
                let conversions = hub.conversions(&repository)?.into_iter();
                Ok(conversions.map(|result| hub_model(result, &expected)).collect())
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
                let mut repository = Repository::get(&hub, &repository, &revision)?;
                repository.identify_adapters(&hub);
                Ok(repository_to_wire(shared, &hub, &repository, &Expected(&devices))?)
            })
            .await
    }

    /// Reads the header of a model that is not on this machine, and plans it.
    ///
    /// # Errors
    /// As [`App::search_hub`]; the file is no model, or Hearth does not support it.
    pub async fn inspect_remote(&self, source: String) -> Result<RemoteModel, Problem> {
        let fetch = self.shared.asking(move |shared| {
            let hub = shared.hub()?;
            let reference = Reference::parse(&source, &hub)?;
            let remote = library::remote(&hub, &reference)?;
            let header = HeaderFile::fetch(&hub, &remote, shared.library.folder())?;
            let model = shared.library.by_path(header.path());
            let metadata = model.metadata.map_err(|problem| Problem {
                code: ProblemCode::FileInvalid,
                ..without_path(problem, header.path())
            })?;
            Ok((header, metadata, model.name))
        });
        let (header, metadata, name) = fetch.await?;
        let settings = LoadSettings::from_settings(&self.shared.settings(), "");
        let request = PlanRequest {
            // A measurement and an answer or a run would slow each other down.
            measure_speed: !self.shared.is_computing(),
            ..settings.plan(header.path().to_owned(), DraftChoice::None)
        };
        let planned = self.shared.host.plan(request).await;
        let plan = planned.map_err(|problem| without_path(problem, header.path()))?;
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

/// A problem with the name of a file in place of its path. Headers are in temporary files, whose
/// paths mean nothing to the user.
fn without_path(problem: Problem, path: &Path) -> Problem {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let replaced = serde_json::to_value(&problem.reason).and_then(|mut reason| {
        replace(&mut reason, &path.display().to_string(), &name);
        serde_json::from_value(reason)
    });
    Problem {
        reason: replaced.unwrap_or(problem.reason),
        ..problem
    }
}

/// Replaces a path by a file name in all texts of a value.
fn replace(value: &mut Value, path: &str, name: &str) {
    match value {
        Value::String(text) => *text = text.replace(path, name),
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, path, name)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace(value, path, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hub_model(result: SearchResult, expected: &Expected) -> HubModel {
    let expectation = result.parameters.filter(|_| !expected.0.is_empty());
    HubModel {
        expectation: expectation.map(|parameters| expected.of_parameters(parameters).into()),
        id: result.id,
        downloads: result.downloads,
        likes: result.likes,
        updated_at: result.updated_at,
        architecture: result.architecture,
        is_supported: result.is_supported,
        parameters: result.parameters,
        context_trained: result.context_trained,
        is_gated: result.is_gated,
        is_adapter: result.tagged.is_adapter,
        base: result.tagged.base,
    }
}

fn repository_to_wire(
    shared: &Shared,
    hub: &Hub,
    repository: &Repository,
    expected: &Expected,
) -> Result<HubRepository, crate::store::StoreError> {
    let models = shared.models()?;
    let model_ids: HashMap<&str, &str> = models
        .iter()
        .filter_map(|model| Some((model.origin.as_ref()?.source.as_str(), model.id.as_str())))
        .collect();
    let adapters = shared.store.read(|t| adapter::list(t))?;
    let adapter_id = |source: &str| {
        let is_downloaded = |row: &&adapter::Adapter| {
            let origin = shared.library.adapter_origin(&row.path);
            origin
                .is_some_and(|origin| origin.source == source && origin.revision.as_ref() == Some(&repository.revision))
        };
        adapters.iter().find(is_downloaded).map(|row| row.id)
    };
    let runs_well = |variant: &&Variant| !variant.kind.is_adapter() && expected.runs_well(variant.size());
    let preferred = repository.preferred().filter(runs_well);
    let largest = || repository.variants.iter().rev().find(runs_well);
    let recommended = preferred.or_else(largest);
    let variants = repository.variants.iter().map(|variant| {
        let source = repository.source(variant);
        HubVariant {
            name: variant.name.clone(),
            file: variant.file().to_owned(),
            files: u32::try_from(variant.files.len()).unwrap_or(u32::MAX),
            size: variant.size(),
            expectation: expected.of_size(variant.size()).into(),
            is_recommended: recommended == Some(variant),
            is_adapter: variant.kind.is_adapter(),
            adapter: variant.kind.is_adapter().then(|| adapter_id(&source)).flatten(),
            model: model_ids.get(source.as_str()).map(|id| (*id).to_owned()),
            source,
        }
    });
    Ok(HubRepository {
        id: repository.id.clone(),
        page: format!("{}/{}", hub.endpoint, repository.id),
        license: repository.license.clone(),
        is_gated: repository.is_gated,
        base: repository.tagged.base.clone(),
        variants: variants.collect(),
    })
}

impl From<Estimate> for Expectation {
    fn from(estimate: Estimate) -> Self {
        Self {
            verdict: estimate.verdict,
            tokens_per_second: estimate.tokens_per_second,
            is_measured: estimate.is_measured,
            was_busy: estimate.was_busy,
        }
    }
}
