//! The conversion of messages to tokens, and of tokens to text.

use crate::chat;
use crate::json_schema::Schemas;
use crate::problem::from_template;
use crate::thinking::Markers;
use hearth_formats::chat_template::{self, Chat, ChatTemplate, GenerationPrompt};
use hearth_formats::tokenizer::Tokenizer;
use hearth_protocol::{Effort, Message, Problem, Thinking};
use std::sync::Arc;

/// Converts messages to tokens, and tokens to text.
pub(crate) struct Texts {
    pub tokenizer: Arc<Tokenizer>,
    pub template: ChatTemplate,
    /// The markers of the model's thoughts. `None` means that it has no known markers.
    pub markers: Option<Arc<Markers>>,
    pub schemas: Schemas,
}

impl Texts {
    /// Encodes a conversation, up to the start of the answer.
    pub fn encode(&self, messages: &[Message], thinking: Thinking) -> Result<Vec<u32>, Problem> {
        self.encode_up_to(messages, thinking, GenerationPrompt::Add)
    }

    /// Encodes a conversation, up to the start of the answer or up to the last message.
    pub fn encode_up_to(
        &self,
        messages: &[Message],
        thinking: Thinking,
        prompt: GenerationPrompt,
    ) -> Result<Vec<u32>, Problem> {
        let chat = self.chat(messages, thinking)?;
        self.template
            .encode_chat(&self.tokenizer, &chat, prompt)
            .map_err(from_template)
    }

    /// Converts a conversation for the chat template.
    pub fn chat(&self, messages: &[Message], thinking: Thinking) -> Result<Chat, Problem> {
        let chat = chat::from_messages(messages, self.markers.as_deref())?;
        Ok(chat.with_thinking(chat_template::Thinking {
            enabled: thinking.enabled,
            effort: thinking.effort.map(Effort::name),
        }))
    }
}
