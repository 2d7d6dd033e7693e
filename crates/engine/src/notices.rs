//! Notices about a model's file.

use crate::numbers::saturating_u32;
use hearth_formats::Architecture;
use hearth_formats::chat_template::{ChatTemplate, TemplateOrigin};
use hearth_formats::gguf::GgufHeader;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::Config;
use hearth_llm::arch::{self, UnknownKeys};
use hearth_protocol::Notice;

/// A notice if the context is longer than in training.
pub(crate) fn beyond_training(context: u32, config: &Config) -> Option<Notice> {
    let trained = saturating_u32(config.context_trained);
    (context > trained).then_some(Notice::BeyondTraining { context, trained })
}

/// A notice if the file has no chat template.
pub fn template_notice(template: &ChatTemplate) -> Option<Notice> {
    match template.origin() {
        TemplateOrigin::File => None,
        TemplateOrigin::ChatMl => Some(Notice::ChatMlTemplate),
        TemplateOrigin::Plain => Some(Notice::PlainTemplate),
    }
}

/// A notice if the vocabulary cannot represent some bytes, so that the model does not see the
/// characters with them.
pub fn missing_bytes(tokenizer: &Tokenizer) -> Option<Notice> {
    let byte = format!("{:#04x}", tokenizer.missing_byte()?);
    Some(Notice::MissingBytes { byte })
}

/// A notice if the file has unknown settings of its architecture.
pub(crate) fn unknown_settings(gguf: &GgufHeader, architecture: Architecture) -> Option<Notice> {
    let UnknownKeys { names, more } = arch::unknown_keys(gguf, architecture)?;
    Some(match more {
        0 => Notice::UnknownSettings { names },
        more => Notice::MoreUnknownSettings {
            names,
            more: more as u64,
        },
    })
}
