//! Which models of the library an adapter fits: by its headers and theirs. Names and recorded
//! fingerprints only refine it.

use crate::{
    library::{self, Model},
    shared::Shared,
    store::adapter,
    wire::{AdapterFit, AdapterMatch, AdapterMisfit},
};
use hearth_formats::adapter::{AdapterHeader, BaseId, Misfit};
use std::path::PathBuf;

/// An adapter's row, and its headers or why they cannot be read.
pub(crate) struct Matched {
    pub row: adapter::Adapter,
    pub header: Result<AdapterHeader, String>,
}

/// Reads the headers of adapters; those whose files are missing have an error.
pub(crate) fn with_headers(shared: &Shared, rows: Vec<adapter::Adapter>) -> Vec<Matched> {
    let paths: Vec<PathBuf> = rows.iter().map(|row| row.path.clone()).collect();
    let headers = shared.library.adapter_headers(&paths);
    rows.into_iter()
        .zip(headers)
        .map(|(row, header)| Matched { row, header })
        .collect()
}

impl Matched {
    /// The fit of this adapter to each readable model. Empty if its headers cannot be read and no
    /// model of the library is its base.
    pub fn matches(&self, shared: &Shared, models: &[Model]) -> Vec<AdapterMatch> {
        let readable = models.iter().filter(|model| model.metadata.is_ok());
        let of = |model: &Model| {
            let fit = self.fit(shared, model)?;
            Some(AdapterMatch {
                model: model.id.clone(),
                fit,
            })
        };
        readable.filter_map(of).collect()
    }

    /// The fit of this adapter to one model. `None` means that its headers cannot be read.
    pub fn fit(&self, shared: &Shared, model: &Model) -> Option<AdapterFit> {
        let is_own = self.row.model == model.id;
        // The worker compares the fingerprints before it uses an adapter.
        if is_own && self.row.run.is_some() {
            return Some(AdapterFit::Exact);
        }
        let fit = self.header.as_ref().ok().map(|header| fit(shared, header, model));
        match fit {
            // All of its values were checked against that model when it was imported.
            Some(AdapterFit::Misfit { .. }) | None if is_own => Some(AdapterFit::Sizes),
            fit => fit,
        }
    }
}

/// The models that an adapter fits, the best first: of one level in the order of the library.
pub(crate) fn best_first(matches: &[AdapterMatch]) -> Vec<&AdapterMatch> {
    let level = |found: &&AdapterMatch| match found.fit {
        AdapterFit::Exact => 0,
        AdapterFit::Named => 1,
        AdapterFit::Sizes => 2,
        AdapterFit::Misfit { .. } => 3,
    };
    let mut fitting: Vec<&AdapterMatch> = matches.iter().filter(|found| level(found) < 3).collect();
    fitting.sort_by_key(level);
    fitting
}

/// The fit of an adapter with these headers to a model.
fn fit(shared: &Shared, header: &AdapterHeader, model: &Model) -> AdapterFit {
    let shape = model
        .metadata
        .as_ref()
        .ok()
        .and_then(|metadata| metadata.shape.as_ref());
    let Some(shape) = shape else {
        let why = AdapterMisfit::Unsupported;
        return AdapterFit::Misfit { why };
    };
    if let Err(misfit) = header.fits(shape) {
        let why = misfit.into();
        return AdapterFit::Misfit { why };
    }
    if let Some(base) = &header.base {
        return by_fingerprint(shared, base, model);
    }
    match &header.base_name {
        Some(name) if library::is_named(model, name) => AdapterFit::Named,
        _ => AdapterFit::Sizes,
    }
}

/// An adapter trained by Hearth records its base.
fn by_fingerprint(shared: &Shared, base: &BaseId, model: &Model) -> AdapterFit {
    match shared.library.fingerprint(&model.path) {
        Ok(found) if found == base.fingerprint => AdapterFit::Exact,
        Ok(found) if found.model == base.fingerprint.model => AdapterFit::Named,
        Ok(_) => AdapterFit::Misfit {
            why: AdapterMisfit::OtherBase,
        },
        // The worker compares them again, and says what it found.
        Err(error) => {
            tracing::info!(error, "a model's fingerprint could not be read");
            AdapterFit::Sizes
        }
    }
}

impl From<Misfit> for AdapterMisfit {
    fn from(misfit: Misfit) -> Self {
        let number = |layers: usize| u32::try_from(layers).unwrap_or(u32::MAX);
        let sizes = |(inputs, outputs): (usize, usize)| format!("{inputs} \u{d7} {outputs}");
        match misfit {
            Misfit::Architecture { adapter } => Self::Architecture { adapter },
            Misfit::Layers { adapter, model } => Self::Layers {
                adapter: number(adapter),
                model: number(model),
            },
            Misfit::Linear { name, adapter, model } => Self::Linear {
                name,
                adapter: sizes(adapter),
                model: sizes(model),
            },
            Misfit::Base => Self::OtherBase,
        }
    }
}
