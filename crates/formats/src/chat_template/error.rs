//! Errors of chat templates.

/// An invalid template, or a failed rendering.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template or vocabulary in the GGUF file cannot be read.
    #[error(transparent)]
    Gguf(#[from] crate::gguf::GgufError),
    /// The input is not a conversation.
    #[error(
        "this is not a conversation: {0}. Pass a JSON list of messages, each with a role and a content, and a JSON \
         list of tools."
    )]
    Conversation(String),
    /// The template is not valid Jinja.
    #[error("the model's chat template cannot be read: {0}. Choose another file of this model.")]
    Syntax(String),
    /// The template called `raise_exception` with this message.
    #[error("the model's chat template refuses this conversation: {0}")]
    Raised(String),
    /// The template exceeded its work limit.
    #[error("the model's chat template takes too long and was stopped. Choose another file of this model.")]
    WorkLimit,
    /// The template exceeded its memory limit.
    #[error(
        "the model's chat template uses far more memory than this conversation needs and was stopped. Choose \
         another file of this model."
    )]
    SizeLimit,
    /// The rendering was [interrupted](crate::interrupt).
    #[error("the operation was cancelled.")]
    Interrupted,
    /// The template failed on these messages, but not on a plain user message.
    #[error(
        "the model's chat template cannot take these messages: {0}. Check what is special about them, such as a \
         content, a tool call or an argument that is missing."
    )]
    Messages(String),
    /// The template failed at run time.
    #[error("the model's chat template fails on this conversation: {0}. Choose another file of this model.")]
    Failed(String),
}
