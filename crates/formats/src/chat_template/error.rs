//! What can go wrong with a chat template.

/// A template that cannot be read, or that refuses a conversation.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The file holds no readable template or vocabulary.
    #[error(transparent)]
    Gguf(#[from] crate::gguf::GgufError),
    /// What was given as a conversation is none.
    #[error(
        "this is no conversation: {0}. Give a JSON list of messages, each with a role and a content, and a JSON list of tools."
    )]
    Conversation(String),
    /// The template is no valid Jinja.
    #[error("the model's chat template cannot be read: {0}. Choose another file of this model.")]
    Syntax(String),
    /// The template itself says no, in its own words.
    #[error("the model's chat template refuses this conversation: {0}")]
    Raised(String),
    /// The template ran for too long.
    #[error("the model's chat template does not come to an end. Choose another file of this model.")]
    Endless,
    /// The template makes more text or more values than a conversation can need.
    #[error(
        "the model's chat template makes far more of this conversation than it can need, so it was stopped before it filled the \
         memory. Choose another file of this model."
    )]
    TooMuch,
    /// The template failed while it ran.
    #[error("the model's chat template fails on this conversation: {0}. Choose another file of this model.")]
    Failed(String),
}
