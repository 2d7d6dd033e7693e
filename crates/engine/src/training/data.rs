//! Reads a dataset, tokenizes its examples and checks it for findings.

use super::findings::{from_broken_line, from_finding, from_kind, from_reason};
use crate::hardware;
use crate::numbers::saturating_u32;
use crate::problem::{from_dataset, from_gguf, from_load, from_template, from_tokenizer, interrupted};
use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::dataset::{
    self, Dataset, DatasetError, DatasetProblem, Delimiter, Mapping, ReadOptions, RenderError, Rendered, Report,
    ReportOptions,
};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::Config;
use hearth_protocol::{
    ColumnMapping, Container, DataSource, ExampleShape, InspectRequest, Inspection, Notice, Piece, Preview, Problem,
    ProblemCode, TrainingReason,
};
use hearth_train::Example;
use std::path::Path;

/// Converts between the two types of column mappings.
macro_rules! columns {
    ($to:ident, $from:expr) => {{
        let from = $from;
        $to {
            messages: from.messages,
            system: from.system,
            prompt: from.prompt,
            input: from.input,
            answer: from.answer,
            text: from.text,
        }
    }};
}

/// A model's file with its tokenizer and chat template.
pub(super) struct Reader {
    pub gguf: Gguf,
    pub config: Config,
    pub tokenizer: Tokenizer,
    pub template: ChatTemplate,
}

impl Reader {
    pub fn open(model: &Path) -> Result<Self, Problem> {
        let gguf = Gguf::open(model).map_err(from_gguf)?;
        Ok(Self {
            config: Config::from_gguf(&gguf).map_err(from_load)?,
            tokenizer: Tokenizer::from_gguf(&gguf).map_err(from_tokenizer)?,
            template: ChatTemplate::from_gguf(&gguf).map_err(from_template)?,
            gguf,
        })
    }
}

/// A dataset with its tokenized examples.
struct RenderedDataset {
    dataset: Dataset,
    rendered: Vec<Result<Rendered, RenderError>>,
    report: Report,
}

/// Maximum bytes of the system prompts that are added to a dataset.
const MAX_SYSTEM_PROMPTS: usize = 512 << 20;

/// Options for rendering and tokenizing the examples.
struct RenderOptions<'a> {
    /// Maximum sequence length in tokens. `None` means that it is chosen from the data.
    sequence: Option<u32>,
    train_on_prompts: bool,
    /// System prompt of conversations that have none.
    system_prompt: Option<&'a str>,
}

/// Reads a dataset and tokenizes its examples. `progress` receives the completed fraction and
/// returns `false` to cancel.
fn read(
    reader: &Reader,
    source: &DataSource,
    options: &RenderOptions<'_>,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Result<RenderedDataset, Problem> {
    let read_options = ReadOptions {
        mapping: source.mapping.clone().map(|mapping| columns!(Mapping, mapping)),
        skip_broken: source.skip_broken,
    };
    let mut dataset =
        Dataset::open_cancellable(&source.path, &read_options, &mut || progress(0.0)).map_err(unreadable)?;
    if let Some(prompt) = options.system_prompt {
        check_system_prompt(prompt, dataset.examples.len())?;
        dataset.set_system_prompt(prompt);
    }
    let (tokenizer, template) = (&reader.tokenizer, &reader.template);
    let threads = hardware::physical_cores();
    let rendered = dataset::render_all(
        &dataset.examples,
        tokenizer,
        template,
        options.train_on_prompts,
        threads,
        progress,
    )
    .ok_or_else(interrupted)?;
    let report_options = ReportOptions {
        sequence: options.sequence,
        context: saturating_u32(reader.config.context_trained),
    };
    let report =
        Report::new_cancellable(&dataset, &rendered, report_options, &mut || progress(1.0)).ok_or_else(interrupted)?;
    Ok(RenderedDataset {
        dataset,
        rendered,
        report,
    })
}

/// Checks the length of a system prompt. Each conversation gets a copy, which could fill the
/// memory.
fn check_system_prompt(prompt: &str, examples: usize) -> Result<(), Problem> {
    if prompt.len().saturating_mul(examples) <= MAX_SYSTEM_PROMPTS {
        return Ok(());
    }
    let reason = TrainingReason::SystemPromptTooLong {
        bytes: prompt.len() as u64,
        examples: examples as u64,
    };
    Err(Problem::new(ProblemCode::BadRequest, reason))
}

/// The problem of a dataset that cannot be read.
fn unreadable(error: DatasetError) -> Problem {
    let reason = match error.problem {
        DatasetProblem::Broken { first, total } => broken_lines(&error.file, first, total),
        DatasetProblem::NoReadableLine { first } => TrainingReason::NoReadableLine {
            path: error.file.display().to_string(),
            line: first.line,
            broken: from_reason(first.reason),
        },
        _ => return from_dataset(error),
    };
    Problem::new(ProblemCode::DataInvalid, reason)
}

/// The reason for refusing a file with `total` broken lines.
fn broken_lines(file: &Path, first: dataset::BrokenLine, total: u32) -> TrainingReason {
    let (path, line) = (file.display().to_string(), first.line);
    let broken = from_reason(first.reason);
    match total.saturating_sub(1) {
        0 => TrainingReason::BrokenLine { path, line, broken },
        count => TrainingReason::BrokenLines {
            path,
            line,
            broken,
            count,
        },
    }
}

/// Inspects a dataset, which is read as in a run. `keep_going` is called several times a second and
/// returns `false` to cancel.
///
/// # Errors
/// The model or the dataset cannot be read, or the inspection was cancelled.
pub fn inspect(request: &InspectRequest, keep_going: &dyn Fn() -> bool) -> Result<Inspection, Problem> {
    let reader = Reader::open(&request.model)?;
    let options = RenderOptions {
        sequence: request.sequence,
        train_on_prompts: false,
        system_prompt: request.system_prompt.as_deref(),
    };
    let RenderedDataset {
        dataset,
        rendered,
        report,
    } = read(&reader, &request.data, &options, &mut |_| keep_going())?;
    let previews = dataset::previews(
        &dataset.examples,
        &rendered,
        &reader.tokenizer,
        &reader.template,
        report.sequence,
        request.previews as usize,
    );
    Ok(Inspection {
        container: container(dataset.container),
        shape: shape(dataset.shape),
        columns: dataset.columns,
        mapping: columns!(ColumnMapping, dataset.mapping),
        unsure: dataset.unsure,
        examples: report.examples,
        tokens: report.tokens,
        trained_tokens: report.trained_tokens,
        lengths: report.lengths,
        sequence: report.sequence,
        truncated: report.truncated,
        previews: previews.into_iter().map(preview).collect(),
        findings: report.findings.into_iter().map(from_finding).collect(),
        broken: dataset.broken.into_iter().map(from_broken_line).collect(),
        broken_total: dataset.broken_total,
    })
}

/// The examples of a run.
pub(super) struct TrainingData {
    pub examples: Vec<Example>,
    pub held_out: Vec<Example>,
    /// Maximum sequence length in tokens.
    pub sequence: u32,
    pub truncated: u32,
    /// Notices for the user.
    pub notices: Vec<Notice>,
}

/// Reads, truncates and splits a dataset. `progress` receives the completed fraction and returns
/// `false` to cancel.
pub(super) fn training_data(
    reader: &Reader,
    source: &DataSource,
    settings: &hearth_protocol::TrainSettings,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Result<TrainingData, Problem> {
    if !(0.0..1.0).contains(&settings.eval_split) {
        let split = settings.eval_split.to_string();
        return Err(Problem::new(
            ProblemCode::BadRequest,
            TrainingReason::ValidationSplit { split },
        ));
    }
    let options = RenderOptions {
        sequence: settings.sequence,
        train_on_prompts: settings.train_on_prompts,
        system_prompt: settings.system_prompt.as_deref(),
    };
    let RenderedDataset { rendered, report, .. } = read(reader, source, &options, progress)?;
    let sequence = report.sequence;
    let chunks: Vec<Rendered> = rendered
        .into_iter()
        .flatten()
        .flat_map(|rendered| rendered.chunks(sequence))
        .collect();
    let fingerprints: Vec<u64> = chunks.iter().map(Rendered::fingerprint).collect();
    let split = dataset::split(&fingerprints, settings.eval_split, settings.seed);
    let examples = |indices: &[usize]| {
        let chunks = indices.iter().filter_map(|index| chunks.get(*index));
        let example = |rendered: &Rendered| Example {
            ids: rendered.ids.clone(),
            trained: rendered.loss_mask.clone(),
        };
        chunks.map(example).collect()
    };
    let findings = report.findings.into_iter();
    let warnings = findings.filter(|finding| finding.severity > dataset::Severity::Note);
    let notice = |finding: dataset::Finding| Notice::Finding {
        finding: from_kind(finding.kind),
    };
    Ok(TrainingData {
        examples: examples(&split.train),
        held_out: examples(&split.eval),
        sequence,
        truncated: report.truncated,
        notices: warnings.map(notice).collect(),
    })
}

fn preview(preview: dataset::Preview) -> Preview {
    let piece = |piece: dataset::Piece| Piece {
        text: piece.text,
        tokens: piece.tokens,
        trained: piece.trained,
        template: piece.template,
        truncated: piece.truncated,
    };
    Preview {
        line: preview.line,
        pieces: preview.pieces.into_iter().map(piece).collect(),
        tokens: preview.tokens,
    }
}

fn container(container: dataset::Container) -> Container {
    match container {
        dataset::Container::JsonLines => Container::Jsonl,
        dataset::Container::Json => Container::Json,
        dataset::Container::Table(Delimiter::Tab) => Container::Tsv,
        dataset::Container::Table(Delimiter::Comma | Delimiter::Semicolon) => Container::Csv,
        dataset::Container::Parquet => Container::Parquet,
        dataset::Container::Text => Container::Text,
        dataset::Container::Markdown => Container::Markdown,
    }
}

fn shape(shape: dataset::ExampleShape) -> ExampleShape {
    match shape {
        dataset::ExampleShape::Messages => ExampleShape::Messages,
        dataset::ExampleShape::ShareGpt => ExampleShape::ShareGpt,
        dataset::ExampleShape::Alpaca => ExampleShape::Alpaca,
        dataset::ExampleShape::PromptAnswer => ExampleShape::PromptAnswer,
        dataset::ExampleShape::Text => ExampleShape::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::Reason;

    #[test]
    fn a_system_prompt_is_added_where_there_is_none() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.jsonl");
        let lines = [
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#,
            r#"{"messages": [{"role": "system", "content": "Sing."}, {"role": "user", "content": "c"},
                {"role": "assistant", "content": "d"}]}"#,
        ];
        std::fs::write(&path, lines.map(|line| line.replace('\n', "")).join("\n")).unwrap();
        let request = |system_prompt: Option<&str>| InspectRequest {
            model: root.join("tests/fixtures/models/llama.gguf"),
            data: DataSource {
                path: path.clone(),
                mapping: None,
                skip_broken: false,
            },
            sequence: None,
            system_prompt: system_prompt.map(str::to_owned),
            previews: 2,
        };
        let texts = |system_prompt| {
            let inspection = inspect(&request(system_prompt), &|| true).unwrap();
            let text = |preview: &Preview| {
                preview
                    .pieces
                    .iter()
                    .map(|piece| piece.text.as_str())
                    .collect::<String>()
            };
            inspection.previews.iter().map(text).collect::<Vec<_>>()
        };
        let (without, with) = (texts(None), texts(Some("Be brief.")));
        assert!(
            !without[0].contains("Be brief.") && with[0].contains("Be brief."),
            "{with:?}"
        );
        assert_eq!(without[1], with[1], "it has a system prompt");
        let long = "x".repeat(MAX_SYSTEM_PROMPTS);
        let refused = inspect(&request(Some(&long)), &|| true).unwrap_err();
        assert_eq!(refused.code, ProblemCode::BadRequest);
    }

    #[test]
    fn reading_a_dataset_can_be_cancelled() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.jsonl");
        // The last line is not an example, so reading it would fail.
        std::fs::write(&path, "{\"text\": \"words\"}\n".repeat(50_000) + "no example").unwrap();
        let request = InspectRequest {
            model: root.join("tests/fixtures/models/llama.gguf"),
            data: DataSource {
                path,
                mapping: None,
                skip_broken: false,
            },
            sequence: None,
            system_prompt: None,
            previews: 1,
        };
        assert_eq!(inspect(&request, &|| false).unwrap_err(), interrupted());
        let refused = inspect(&request, &|| true).unwrap_err();
        assert_eq!(refused.code, ProblemCode::DataInvalid);
        assert!(
            matches!(
                *refused.reason,
                Reason::Training(TrainingReason::BrokenLine { line: 50_001, .. })
            ),
            "{refused:?}"
        );
    }
}
