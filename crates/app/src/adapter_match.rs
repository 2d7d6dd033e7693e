//! Matches between adapters and the models of the library, from the headers of both. Names and
//! recorded fingerprints refine a match to exact, named or sizes.

use crate::{
    library::{self, Model},
    shared::Shared,
    store::adapter,
    wire::{AdapterFit, AdapterMatch, AdapterMismatch, Problem},
};
use hearth_formats::adapter::{AdapterHeader, BaseId, Mismatch};
use std::path::PathBuf;

/// An adapter's row, and its headers or the problem of reading them.
pub(crate) struct Matched {
    pub row: adapter::Adapter,
    pub header: Result<AdapterHeader, Problem>,
}

/// Reads the headers of adapters. An adapter whose files are missing has an error.
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
        let match_of = |model: &Model| {
            let fit = self.fit(shared, model)?;
            Some(AdapterMatch {
                model: model.id.clone(),
                fit,
            })
        };
        readable.filter_map(match_of).collect()
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
            // The import has checked all of its values against this model.
            Some(AdapterFit::Mismatch { .. }) | None if is_own => Some(AdapterFit::Sizes),
            fit => fit,
        }
    }
}

/// The models that an adapter fits and that it was not merged into, best first. Models of equal
/// rank keep the order of the library.
pub(crate) fn best_first(matches: &[AdapterMatch]) -> Vec<&AdapterMatch> {
    let rank = |candidate: &&AdapterMatch| match candidate.fit {
        AdapterFit::Exact => 0,
        AdapterFit::Named => 1,
        AdapterFit::Sizes => 2,
        AdapterFit::Merged | AdapterFit::Mismatch { .. } => 3,
    };
    let mut fitting: Vec<&AdapterMatch> = matches.iter().filter(|candidate| rank(candidate) < 3).collect();
    fitting.sort_by_key(rank);
    fitting
}

/// The fit of an adapter with these headers to a model.
fn fit(shared: &Shared, header: &AdapterHeader, model: &Model) -> AdapterFit {
    let metadata = model.metadata.as_ref().ok();
    let Some((shape, merged)) = metadata.and_then(|metadata| Some((metadata.shape.as_ref()?, &metadata.merged))) else {
        return AdapterFit::Mismatch {
            reason: AdapterMismatch::Unsupported,
        };
    };
    if let Err(mismatch) = header.fits(shape) {
        return AdapterFit::Mismatch {
            reason: mismatch.into(),
        };
    }
    if header.id.as_ref().is_some_and(|id| merged.contains(id)) {
        return AdapterFit::Merged;
    }
    if let Some(base) = &header.base {
        return match by_fingerprint(shared, base, model) {
            // With another adapter in it, it is not the base in another quantization.
            AdapterFit::Named if !merged.is_empty() => AdapterFit::Sizes,
            fit => fit,
        };
    }
    match &header.base_name {
        Some(name) if library::is_named(model, name) => AdapterFit::Named,
        _ => AdapterFit::Sizes,
    }
}

/// The fit of an adapter that Hearth trained, which records its base.
fn by_fingerprint(shared: &Shared, base: &BaseId, model: &Model) -> AdapterFit {
    match shared.library.fingerprint(&model.path) {
        Ok(fingerprint) if fingerprint == base.fingerprint => AdapterFit::Exact,
        Ok(fingerprint) if fingerprint.model == base.fingerprint.model => AdapterFit::Named,
        Ok(_) => AdapterFit::Mismatch {
            reason: AdapterMismatch::OtherBase,
        },
        // The worker compares the fingerprints again, and reports a mismatch.
        Err(problem) => {
            tracing::info!(%problem, "a model's fingerprint could not be read");
            AdapterFit::Sizes
        }
    }
}

impl From<Mismatch> for AdapterMismatch {
    fn from(mismatch: Mismatch) -> Self {
        let layer_count = |layers: usize| u32::try_from(layers).unwrap_or(u32::MAX);
        let sizes = |(inputs, outputs): (usize, usize)| [inputs as u64, outputs as u64];
        match mismatch {
            Mismatch::Architecture { adapter } => Self::Architecture { adapter },
            Mismatch::Layers { adapter, model } => Self::Layers {
                adapter: layer_count(adapter),
                model: layer_count(model),
            },
            Mismatch::Linear { name, adapter, model } => Self::Linear {
                name,
                adapter: sizes(adapter),
                model: sizes(model),
            },
            Mismatch::Base => Self::OtherBase,
        }
    }
}
