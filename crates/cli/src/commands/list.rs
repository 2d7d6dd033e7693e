//! `hearth list`: lists models.

use crate::failure::Failure;
use crate::terminal::stdout;
use hearth_app::library::{self, catalog, drafts::drafts_of};
use hearth_engine::plan::estimate_fit;
use hearth_formats::byte_size;
use std::io::Write;

/// Prints the models on this machine, then the other models of the catalog.
pub fn run() -> Result<(), Failure> {
    let (library, added) = library::open().map_err(Failure::new)?;
    let models = library.list(&added);
    let mut out = stdout();
    for model in &models {
        writeln!(out, "{:<28}  {}", model.id, model.name)?;
        match &model.metadata {
            Ok(_) => writeln!(out, "{:<28}  {}", "", model.path.display())?,
            Err(problem) => writeln!(out, "{:<28}  unusable: {problem}", "")?,
        }
        let drafts: Vec<&str> = drafts_of(model, &models).map(|draft| draft.id.as_str()).collect();
        if !drafts.is_empty() {
            writeln!(out, "{:<28}  drafts: {}", "", drafts.join(" "))?;
        }
    }
    for entry in catalog::entries()
        .iter()
        .filter(|entry| models.iter().all(|model| model.entry != Some(entry)))
    {
        writeln!(out, "{:<28}  {}", entry.id, entry.name)?;
        writeln!(
            out,
            "{:<28}  not downloaded: `hearth pull {}` downloads {}",
            "",
            entry.id,
            byte_size(entry.size)
        )?;
        let (estimate, reason) = estimate_fit(entry.size);
        let speed = estimate.tokens_per_second.map(|speed| {
            if estimate.is_measured {
                format!(" About {speed:.0} tokens/s.")
            } else {
                format!(" About {speed:.0} tokens/s, assumed: `hearth devices --check cpu` measures.")
            }
        });
        writeln!(out, "{:<28}  {reason}{}", "", speed.unwrap_or_default())?;
    }
    Ok(())
}
