//! Reading a dataset: tokens and findings.

use crate::hardware;
use crate::numbers::saturating_u32;
use crate::problem::{from_dataset, from_gguf, from_load, from_template, from_tokenizer, interrupted, problem};
use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::dataset::{self, Dataset, Mapping, ReadOptions, RenderError, Rendered, Report, ReportOptions};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::Config;
use hearth_protocol::{
    BrokenLine, ColumnMapping, DataSource, Finding, InspectRequest, Inspection, Piece, Preview, Problem, ProblemCode,
    Severity,
};
use hearth_train::Example;

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
    pub fn open(model: &std::path::Path) -> Result<Self, Problem> {
        let gguf = Gguf::open(model).map_err(from_gguf)?;
        Ok(Self {
            config: Config::from_gguf(&gguf).map_err(from_load)?,
            tokenizer: Tokenizer::from_gguf(&gguf).map_err(from_tokenizer)?,
            template: ChatTemplate::from_gguf(&gguf).map_err(from_template)?,
            gguf,
        })
    }
}

/// A dataset with its tokens.
struct ReadDataset {
    dataset: Dataset,
    rendered: Vec<Result<Rendered, RenderError>>,
    report: Report,
}

/// Most bytes of the system prompts that are added to a dataset.
const MAX_SYSTEM_PROMPTS: usize = 512 << 20;

/// Options of reading and tokenizing the examples.
struct HowToRead<'a> {
    /// Maximum sequence length in tokens. `None`: chosen from the data.
    sequence: Option<u32>,
    train_on_prompts: bool,
    /// System prompt of conversations that have none.
    system_prompt: Option<&'a str>,
}

/// `progress` receives the fraction done and returns `false` to cancel.
fn read(
    reader: &Reader,
    source: &DataSource,
    how: &HowToRead<'_>,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Result<ReadDataset, Problem> {
    let options = ReadOptions {
        mapping: source.mapping.clone().map(|mapping| columns!(Mapping, mapping)),
        skip_broken: source.skip_broken,
    };
    let mut dataset = Dataset::open_cancellable(&source.path, &options, &mut || progress(0.0)).map_err(from_dataset)?;
    if let Some(prompt) = how.system_prompt {
        check_system_prompt(prompt, dataset.examples.len())?;
        dataset.set_system_prompt(prompt);
    }
    let (tokenizer, template) = (&reader.tokenizer, &reader.template);
    let threads = hardware::physical_cores();
    let rendered = dataset::render_all(
        &dataset.examples,
        tokenizer,
        template,
        how.train_on_prompts,
        threads,
        progress,
    )
    .ok_or_else(interrupted)?;
    let options = ReportOptions {
        sequence: how.sequence,
        context: saturating_u32(reader.config.context_trained),
    };
    let report =
        Report::new_cancellable(&dataset, &rendered, options, &mut || progress(1.0)).ok_or_else(interrupted)?;
    Ok(ReadDataset {
        dataset,
        rendered,
        report,
    })
}

/// Refuses a system prompt that would fill the memory: each conversation gets a copy.
fn check_system_prompt(prompt: &str, examples: usize) -> Result<(), Problem> {
    if prompt.len().saturating_mul(examples) <= MAX_SYSTEM_PROMPTS {
        return Ok(());
    }
    let message = format!(
        "The system prompt has {} bytes, too many for {examples} examples. Shorten it, or put system prompts into the \
         data.",
        prompt.len()
    );
    Err(problem(ProblemCode::BadRequest, message))
}

/// Inspects a dataset, read as in a run. `keep_going` is polled several times a second and returns
/// `false` to cancel.
///
/// # Errors
/// The model or the dataset cannot be read, or the inspection was cancelled.
pub fn inspect(request: &InspectRequest, keep_going: &dyn Fn() -> bool) -> Result<Inspection, Problem> {
    let reader = Reader::open(&request.model)?;
    let how = HowToRead {
        sequence: request.sequence,
        train_on_prompts: false,
        system_prompt: request.system_prompt.as_deref(),
    };
    let read = read(&reader, &request.data, &how, &mut |_| keep_going())?;
    let ReadDataset {
        dataset,
        rendered,
        report,
    } = read;
    let previews = dataset::previews(
        &dataset.examples,
        &rendered,
        &reader.tokenizer,
        &reader.template,
        report.sequence,
        request.previews as usize,
    );
    Ok(Inspection {
        container: dataset.container.to_owned(),
        shape: dataset.shape.to_owned(),
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
        findings: report.findings.into_iter().map(finding).collect(),
        broken: dataset.broken.into_iter().map(broken).collect(),
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
    /// Notices for the user, in whole sentences.
    pub notices: Vec<String>,
}

/// Reads, truncates and splits a dataset. `progress` receives the fraction done and returns `false`
/// to cancel.
pub(super) fn training_data(
    reader: &Reader,
    source: &DataSource,
    settings: &hearth_protocol::TrainSettings,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Result<TrainingData, Problem> {
    if !(0.0..1.0).contains(&settings.eval_split) {
        let message = format!(
            "The validation split is {}; it must be at least 0 and below 1.",
            settings.eval_split
        );
        return Err(problem(ProblemCode::BadRequest, message));
    }
    let how = HowToRead {
        sequence: settings.sequence,
        train_on_prompts: settings.train_on_prompts,
        system_prompt: settings.system_prompt.as_deref(),
    };
    let read = read(reader, source, &how, progress)?;
    let sequence = read.report.sequence;
    let chunks: Vec<Rendered> = read
        .rendered
        .into_iter()
        .flatten()
        .flat_map(|rendered| rendered.chunks(sequence))
        .collect();
    let fingerprints: Vec<u64> = chunks.iter().map(Rendered::fingerprint).collect();
    let split = dataset::split(&fingerprints, settings.eval_split, settings.seed);
    let pick = |places: &[usize]| {
        let chosen = places.iter().filter_map(|place| chunks.get(*place));
        let example = |rendered: &Rendered| Example {
            ids: rendered.ids.clone(),
            trained: rendered.loss_mask.clone(),
        };
        chosen.map(example).collect()
    };
    let serious = read
        .report
        .findings
        .iter()
        .filter(|finding| finding.severity > dataset::Severity::Note);
    Ok(TrainingData {
        examples: pick(&split.train),
        held_out: pick(&split.eval),
        sequence,
        truncated: read.report.truncated,
        notices: serious.map(|finding| finding.message.clone()).collect(),
    })
}

fn preview(preview: dataset::Preview) -> Preview {
    let piece = |piece: dataset::Piece| Piece {
        text: piece.text,
        tokens: piece.tokens,
        trained: piece.trained,
        template: piece.template,
        cut: piece.cut,
    };
    Preview {
        line: preview.line,
        pieces: preview.pieces.into_iter().map(piece).collect(),
        tokens: preview.tokens,
    }
}

fn finding(finding: dataset::Finding) -> Finding {
    Finding {
        kind: finding.kind.to_owned(),
        severity: match finding.severity {
            dataset::Severity::Note => Severity::Note,
            dataset::Severity::Warning => Severity::Warning,
            dataset::Severity::Error => Severity::Error,
        },
        message: finding.message,
        lines: finding.lines,
    }
}

fn broken(broken: dataset::BrokenLine) -> BrokenLine {
    BrokenLine {
        line: broken.line,
        why: broken.why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
        let (plain, prompted) = (texts(None), texts(Some("Be brief.")));
        assert!(
            !plain[0].contains("Be brief.") && prompted[0].contains("Be brief."),
            "{prompted:?}"
        );
        assert_eq!(plain[1], prompted[1], "it has one of its own");
        let long = "x".repeat(MAX_SYSTEM_PROMPTS);
        let refused = inspect(&request(Some(&long)), &|| true).unwrap_err();
        assert_eq!(refused.code, ProblemCode::BadRequest);
    }

    #[test]
    fn reading_a_dataset_can_be_cancelled() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.jsonl");
        // The last line would be refused.
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
        assert_eq!(inspect(&request, &|| true).unwrap_err().code, ProblemCode::DataInvalid);
    }
}
