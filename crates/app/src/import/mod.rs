//! Imports conversations from the exports of other programs, and from Hearth's own.
//!
//! The format is detected from the content. A file for each format turns it into an
//! [`ImportedConversation`](tree::ImportedConversation), which `tree` makes a tree and `save`
//! writes in one transaction. Files are untrusted: elements are read one at a time and are bounded;
//! texts stay texts, and nothing that they link to is opened.

mod chatgpt;
mod claude;
mod collect;
mod elements;
pub(crate) mod hearth;
mod identity;
mod jan;
mod json;
mod llama_cpp;
mod lm_studio;
mod open_webui;
mod openai;
mod save;
mod sharegpt;
mod source;
mod system_prompt;
mod text;
mod time;
mod tree;

use crate::{
    App,
    shared::Shared,
    title,
    wire::{Event, ImportFormat, ImportReport, Problem, ProblemCode, SkipReason, Skipped},
};
use collect::{Collector, ImportItem};
use hearth_protocol::DataReason;
use identity::KnownMessages;
use save::Saved;
use source::Meter;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tree::{ImportedConversation, MAX_MESSAGES};

/// The name of Hearth's format in origins.
const HEARTH: &str = "hearth";

/// The interval of progress events.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

impl App {
    /// Imports the conversations of an export: a file, a ZIP archive or a folder. Messages that
    /// were imported before are skipped; known conversations get new messages. Progress is sent as
    /// events. After an error, the conversations imported so far are kept.
    pub async fn import_conversations(&self, path: PathBuf) -> Result<ImportReport, Problem> {
        let cancellable = self.shared.imports.begin();
        self.shared
            .blocking(move |shared| {
                let mut import = Import {
                    shared,
                    report: ImportReport::default(),
                    meter: &Meter::new(cancellable),
                    reported: Instant::now(),
                    messages: KnownMessages::default(),
                };
                let result = import.run(&path);
                let report = import.report;
                if report.imported + report.extended > 0 {
                    shared.announce_conversations()?;
                }
                result.map_err(|problem| with_count(problem, report.imported))?;
                Ok(report)
            })
            .await
    }

    /// Cancels the imports in progress. The conversations imported so far are kept.
    pub async fn cancel_import(&self) -> Result<(), Problem> {
        self.shared.imports.cancel();
        Ok(())
    }
}

/// An import in progress.
struct Import<'a> {
    shared: &'a Shared,
    report: ImportReport,
    meter: &'a Meter,
    reported: Instant,
    messages: KnownMessages,
}

impl Import<'_> {
    fn run(&mut self, path: &Path) -> Result<(), Problem> {
        let mut collector = Collector::new(&self.shared.data);
        let meter = self.meter;
        let visited = source::visit(path, meter, &mut |document| {
            collector.document(document, &mut |item| self.take(item))
        })?;
        collector.flush(&mut |item| self.take(item))?;
        for _ in 0..visited.unreadable {
            self.skip(SkipReason::Unreadable, None, None);
        }
        let has_known_format =
            |skipped: &Skipped| !matches!(skipped.reason, SkipReason::UnknownFormat | SkipReason::Unreadable);
        if collector.recognized || self.report.skipped.iter().any(has_known_format) {
            Ok(())
        } else {
            Err(not_an_export(path))
        }
    }

    fn take(&mut self, item: ImportItem) -> Result<(), Problem> {
        self.meter.import.check().map_err(|error| source::failed(&error))?;
        if self.reported.elapsed() >= PROGRESS_INTERVAL {
            self.reported = Instant::now();
            self.shared.emit(Event::ImportProgress {
                fraction: self.meter.fraction(),
            });
        }
        match item {
            ImportItem::Skipped(reason, title) => self.skip(reason, None, title),
            ImportItem::Exceeding(reason, limit, title) => self.skip(reason, Some(limit as u64), title),
            ImportItem::Conversation(format, conversation) => self.save(format, *conversation)?,
        }
        Ok(())
    }

    fn skip(&mut self, reason: SkipReason, limit: Option<u64>, title: Option<String>) {
        let title = title.as_deref().and_then(title::normalized);
        self.report.found += 1;
        let skipped = &mut self.report.skipped;
        let has_same_reason = |skipped: &&mut Skipped| (skipped.reason, skipped.limit) == (reason, limit);
        match skipped.iter_mut().find(has_same_reason) {
            Some(skipped) => {
                skipped.count += 1;
                skipped.example = skipped.example.take().or(title);
            }
            None => skipped.push(Skipped {
                reason,
                limit,
                count: 1,
                example: title,
            }),
        }
    }

    fn save(&mut self, format: ImportFormat, mut conversation: ImportedConversation) -> Result<(), Problem> {
        if !self.report.formats.contains(&format) {
            self.report.formats.push(format);
        }
        if conversation.messages.len() > MAX_MESSAGES {
            self.skip(
                SkipReason::TooManyMessages,
                Some(MAX_MESSAGES as u64),
                conversation.title,
            );
            return Ok(());
        }
        conversation.shorten_names();
        let mut tree = conversation.take_tree();
        if tree.nodes.is_empty() {
            self.skip(SkipReason::Empty, None, conversation.title);
            return Ok(());
        }
        let name = name(format);
        let saved = self
            .shared
            .store
            .write(|t| save::save(t, name, &conversation, &mut tree, &mut self.messages))?;
        let report = &mut self.report;
        report.found += 1;
        match saved {
            Saved::New { messages } => {
                report.imported += 1;
                report.messages += messages as u32;
            }
            Saved::Extended { messages } => {
                report.extended += 1;
                report.messages += messages as u32;
            }
            Saved::Known => report.known += 1,
        }
        Ok(())
    }
}

/// The name of a format in origins. Names must never change, because origins are saved.
fn name(format: ImportFormat) -> &'static str {
    match format {
        ImportFormat::Hearth => HEARTH,
        ImportFormat::ChatGpt => "chatgpt",
        ImportFormat::Claude => "claude",
        ImportFormat::LmStudio => "lmstudio",
        ImportFormat::Jan => "jan",
        ImportFormat::OpenWebUi => "openwebui",
        ImportFormat::LlamaCpp => "llamacpp",
        ImportFormat::ShareGpt => "sharegpt",
        ImportFormat::OpenAi => "openai",
    }
}

fn not_an_export(path: &Path) -> Problem {
    let path = path.display().to_string();
    Problem::new(ProblemCode::DataInvalid, DataReason::NoConversations { path })
}

/// Adds the number of conversations that were imported before a problem.
fn with_count(problem: Problem, imported: u32) -> Problem {
    match imported {
        0 => problem,
        count => {
            let cause = Box::new(problem);
            Problem::new(cause.code, DataReason::ImportInterrupted { cause, count })
        }
    }
}
