//! Errors of the lower crates as [`Problem`]s of the protocol.

use crate::json_schema;
use hearth_formats::adapter::{AdapterError, AdapterProblem};
use hearth_formats::chat_template::TemplateError;
use hearth_formats::dataset::{DatasetError, DatasetProblem};
use hearth_formats::gguf::{GgufError, GgufProblem};
use hearth_formats::tokenizer::TokenizerError;
use hearth_llm::{LoadError, SamplingError, SessionError};
use hearth_protocol::{Problem, ProblemCode};
use hearth_train::{MergeError, TrainError};
use std::any::Any;
use std::io;
use std::path::Path;

/// A problem with a code and a sentence.
pub(crate) fn problem(code: ProblemCode, message: impl Into<String>) -> Problem {
    Problem {
        code,
        message: message.into(),
    }
}

/// A bug in Hearth.
pub(crate) fn internal(what: &str) -> Problem {
    let message = format!("Internal error in Hearth ({what}). Please report it; trying again may work.");
    problem(ProblemCode::Internal, message)
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
    problem(code, error.to_string())
}

pub(crate) fn from_tokenizer(error: TokenizerError) -> Problem {
    match error {
        TokenizerError::Gguf(error) => from_gguf(error),
        TokenizerError::Unknown { .. } => problem(ProblemCode::Unsupported, error.to_string()),
        TokenizerError::Malformed { .. } => problem(ProblemCode::FileInvalid, error.to_string()),
    }
}

pub(crate) fn from_template(error: TemplateError) -> Problem {
    if let TemplateError::Interrupted = error {
        return interrupted();
    }
    problem(ProblemCode::Template, error.to_string())
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
    problem(code, error.to_string())
}

/// The error of a load or run that was cancelled.
pub(crate) fn interrupted() -> Problem {
    problem(ProblemCode::Cancelled, "The operation was cancelled.")
}

pub(crate) fn from_session(error: SessionError) -> Problem {
    let code = match error {
        SessionError::ContextFull { .. } => ProblemCode::PromptTooLong,
        SessionError::NoSuchToken { .. } => ProblemCode::FileInvalid,
        SessionError::Empty | SessionError::BadContext(_) | SessionError::Cache(_) => ProblemCode::BadRequest,
        SessionError::Embeddings { .. } | SessionError::OtherModel => ProblemCode::Internal,
        SessionError::Device(_) => ProblemCode::NoDevice,
    };
    problem(code, error.to_string())
}

pub(crate) fn from_sampling(error: SamplingError) -> Problem {
    match error {
        SamplingError::Setting { .. }
        | SamplingError::TooManyStrings { .. }
        | SamplingError::LongString { .. }
        | SamplingError::ReplacementCharacter => {
            problem(ProblemCode::BadRequest, format!("A setting is invalid: {error}."))
        }
        SamplingError::Constraint(reason) => json_schema::failed(&reason),
        SamplingError::NothingLeft => {
            let message = "The sampling parameters leave no token to go on with. Remove a banned string or a logit \
                           bias, or lower a penalty.";
            problem(ProblemCode::BadRequest, message)
        }
        SamplingError::NoLogits => {
            let message = "The model's logits are NaN or infinite, so its file is probably corrupt. Download it again.";
            problem(ProblemCode::FileInvalid, message)
        }
    }
}

pub(crate) fn from_dataset(error: DatasetError) -> Problem {
    if matches!(error.problem, DatasetProblem::Cancelled) {
        return interrupted();
    }
    problem(ProblemCode::DataInvalid, error.to_string())
}

pub(crate) fn from_adapter(error: AdapterError) -> Problem {
    let code = match &error.problem {
        AdapterProblem::Read(source) | AdapterProblem::Write(source) => of_disk(source),
        _ => ProblemCode::AdapterInvalid,
    };
    problem(code, error.to_string())
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
        TrainError::Write { source, .. } => of_disk(source),
        TrainError::Checkpoint { .. } => ProblemCode::FileInvalid,
    };
    problem(code, error.to_string())
}

pub(crate) fn from_merge(error: MergeError) -> Problem {
    match error {
        MergeError::Adapter(error) => from_adapter(error),
        MergeError::Gguf(error) => from_gguf(error),
        MergeError::Cancelled => interrupted(),
        error @ MergeError::Corrupt { .. } => problem(ProblemCode::FileInvalid, error.to_string()),
        error @ (MergeError::Type { .. } | MergeError::NotStorable { .. }) => {
            problem(ProblemCode::Unsupported, error.to_string())
        }
    }
}

/// A disk error with its path.
pub(crate) fn disk(path: &Path, error: &io::Error) -> Problem {
    let what = match of_disk(error) {
        ProblemCode::DiskFull => "The disk is full. Free some space, then try again.",
        _ => "Check that it exists and that you have permission to read and write it.",
    };
    problem(of_disk(error), format!("{}: {error}. {what}", path.display()))
}

fn of_disk(error: &io::Error) -> ProblemCode {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ProblemCode::DiskFull
        }
        _ => ProblemCode::FileUnreadable,
    }
}
