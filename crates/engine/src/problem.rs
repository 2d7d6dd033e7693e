//! Converts errors of the lower crates to [`Problem`]s of the protocol.

use hearth_formats::adapter::{AdapterError, AdapterProblem};
use hearth_formats::chat_template::TemplateError;
use hearth_formats::dataset::{DatasetError, DatasetProblem};
use hearth_formats::gguf::{GgufError, GgufProblem};
use hearth_formats::tokenizer::TokenizerError;
use hearth_llm::{LoadError, SamplingError, SessionError};
use hearth_protocol::{Problem, ProblemCode, RequestReason, WorkerReason};
use hearth_train::{MergeError, TrainError};
use std::any::Any;
use std::io;
use std::path::Path;

/// The problem of a bug in Hearth.
pub(crate) fn internal(detail: &str) -> Problem {
    let detail = detail.to_owned();
    Problem::new(ProblemCode::Internal, WorkerReason::Internal { detail })
}

/// The message of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message")
}

pub(crate) fn from_gguf(error: GgufError) -> Problem {
    let code = match error.problem {
        GgufProblem::Io(_) => ProblemCode::FileUnreadable,
        GgufProblem::BigEndian | GgufProblem::Version(_) => ProblemCode::Unsupported,
        _ => ProblemCode::FileInvalid,
    };
    Problem::detail(code, error)
}

pub(crate) fn from_tokenizer(error: TokenizerError) -> Problem {
    match error {
        TokenizerError::Gguf(error) => from_gguf(error),
        TokenizerError::Unknown { .. } => Problem::detail(ProblemCode::Unsupported, error),
        TokenizerError::Malformed { .. } => Problem::detail(ProblemCode::FileInvalid, error),
    }
}

pub(crate) fn from_template(error: TemplateError) -> Problem {
    if let TemplateError::Interrupted = error {
        return interrupted();
    }
    Problem::detail(ProblemCode::Template, error)
}

pub(crate) fn from_load(error: LoadError) -> Problem {
    let code = match error {
        LoadError::Gguf(error) => return from_gguf(error),
        LoadError::Unsupported { .. } => ProblemCode::Unsupported,
        LoadError::Device { .. } => ProblemCode::NoDevice,
        LoadError::Cancelled => return interrupted(),
        LoadError::Missing { .. }
        | LoadError::BadValue { .. }
        | LoadError::Shape { .. }
        | LoadError::NotFinite { .. } => ProblemCode::FileInvalid,
    };
    Problem::detail(code, error)
}

/// The problem of a cancelled request.
pub(crate) fn interrupted() -> Problem {
    Problem::new(ProblemCode::Cancelled, RequestReason::Cancelled)
}

pub(crate) fn from_session(error: SessionError) -> Problem {
    let code = match error {
        SessionError::ContextFull { .. } => ProblemCode::PromptTooLong,
        SessionError::NoSuchToken { .. } => ProblemCode::FileInvalid,
        SessionError::Empty | SessionError::BadContext(_) | SessionError::Cache(_) => ProblemCode::BadRequest,
        SessionError::Embeddings { .. } | SessionError::OtherModel => ProblemCode::Internal,
        SessionError::Device(_) => ProblemCode::NoDevice,
    };
    Problem::detail(code, error)
}

pub(crate) fn from_sampling(error: SamplingError) -> Problem {
    match error {
        SamplingError::Setting { .. }
        | SamplingError::TooManyStrings { .. }
        | SamplingError::LongString { .. }
        | SamplingError::ReplacementCharacter => {
            let detail = error.to_string();
            Problem::new(ProblemCode::BadRequest, RequestReason::SettingInvalid { detail })
        }
        SamplingError::Constraint(reason) => schema_failed(&reason),
        SamplingError::NothingLeft => Problem::new(ProblemCode::BadRequest, RequestReason::NoTokenLeft),
        SamplingError::NoLogits => Problem::new(ProblemCode::FileInvalid, RequestReason::LogitsNotFinite),
    }
}

/// The problem of an answer whose grammar reached a limit.
pub(crate) fn schema_failed(reason: &str) -> Problem {
    let detail = reason.to_owned();
    Problem::new(ProblemCode::BadRequest, RequestReason::SchemaFailed { detail })
}

pub(crate) fn from_dataset(error: DatasetError) -> Problem {
    if matches!(error.problem, DatasetProblem::Cancelled) {
        return interrupted();
    }
    Problem::detail(ProblemCode::DataInvalid, error)
}

pub(crate) fn from_adapter(error: AdapterError) -> Problem {
    let code = match &error.problem {
        AdapterProblem::Read(source) | AdapterProblem::Write(source) => disk_code(source),
        _ => ProblemCode::AdapterInvalid,
    };
    Problem::detail(code, error)
}

pub(crate) fn from_train(error: TrainError) -> Problem {
    let code = match &error {
        TrainError::Setting { .. } | TrainError::UnknownTarget(_) | TrainError::NoTarget | TrainError::Rank { .. } => {
            ProblemCode::BadRequest
        }
        TrainError::NothingToTrain | TrainError::NoSuchToken { .. } => ProblemCode::DataInvalid,
        TrainError::InitialAdapter(_) | TrainError::Adapter(_) => ProblemCode::AdapterInvalid,
        TrainError::Diverged { .. } => ProblemCode::Diverged,
        TrainError::Aborted => ProblemCode::Internal,
        TrainError::Write { source, .. } => disk_code(source),
        TrainError::Checkpoint { .. } => ProblemCode::FileInvalid,
    };
    Problem::detail(code, error)
}

pub(crate) fn from_merge(error: MergeError) -> Problem {
    match error {
        MergeError::Adapter(error) => from_adapter(error),
        MergeError::Gguf(error) => from_gguf(error),
        MergeError::Cancelled => interrupted(),
        error @ MergeError::Corrupt { .. } => Problem::detail(ProblemCode::FileInvalid, error),
        error @ (MergeError::Type { .. } | MergeError::NotStorable { .. }) => {
            Problem::detail(ProblemCode::Unsupported, error)
        }
    }
}

/// The problem of an I/O error on this path.
pub(crate) fn disk(path: &Path, error: &io::Error) -> Problem {
    let (path, detail) = (path.display().to_string(), error.to_string());
    let code = disk_code(error);
    let reason = match code {
        ProblemCode::DiskFull => WorkerReason::DiskFull { path, detail },
        _ => WorkerReason::FileUnreadable { path, detail },
    };
    Problem::new(code, reason)
}

/// The code of an I/O error.
fn disk_code(error: &io::Error) -> ProblemCode {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ProblemCode::DiskFull
        }
        _ => ProblemCode::FileUnreadable,
    }
}
