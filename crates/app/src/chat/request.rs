//! The request of an answer: the branch of its conversation, its system prompt, its settings and
//! its adapters.

use super::{
    Target, prompt,
    training_prompt::{self, TrainingPrompt},
};
use crate::{
    adapters,
    convert::from_json,
    generated_title, presets,
    shared::Shared,
    store::{answer_tokens, conversation, folder, message as rows},
    wire::{AnswerSettings, ConversationSettings, Message, NewConversation, Problem},
};
use hearth_protocol::{
    self as protocol, ConversationBefore, GenerateRequest, Prompt, Role, SamplingParams, Thinking, text_of, thinking_of,
};
use std::hash::{BuildHasher, RandomState};

/// Maximum characters of each message in the prompt of a title, if the messages are excerpted.
const MAX_EXCERPT: usize = 500;

/// The request of an answer by this model, and its settings. A message with text is continued.
pub(super) fn build(
    shared: &Shared,
    target: &Target,
    message: &Message,
) -> Result<(GenerateRequest, AnswerSettings), Problem> {
    let adapters = adapters::for_worker(shared, &target.id, &message.adapters)?;
    let (row, folder, training_prompt, mut branch, ids) = shared.store.read(|t| {
        let row = conversation::get(t, message.conversation)?;
        let training_prompt = training_prompt::find(t, &message.adapters)?;
        let branch = message.parent.map(|parent| rows::branch(t, parent)).transpose()?;
        Ok((
            row,
            folder::of_conversation(t, message.conversation)?,
            training_prompt,
            branch.unwrap_or_default(),
            answer_tokens::get(t, message.id)?,
        ))
    })?;
    // The disk may have been full, so that live messages are newer than their rows.
    shared.complete(&mut branch);
    let answer = presets::of_answer(
        &|id| presets::by_id(shared, id),
        row.as_ref(),
        message.overrides.as_ref(),
    );
    let own_prompt = answer.system_prompt.as_deref();
    let system = system_prompt(own_prompt, folder.as_ref(), &training_prompt, target);
    let mut settings = over_folder(answer.settings, folder.as_ref());
    let overrides = message.overrides.as_ref();
    let sampling = overrides.and_then(|overrides| overrides.sampling.clone());
    settings.sampling = sampling.unwrap_or_default().or(settings.sampling);
    let thinking = Thinking::from(settings.thinking);
    let answer_settings = AnswerSettings {
        sampling: with_seed(settings.sampling.apply(defaults(shared, target))),
        max_tokens: settings.max_tokens,
        stop: settings.stop.unwrap_or_default(),
        thinking: thinking.enabled,
        effort: thinking.effort,
        json_schema: settings.json_schema,
    };
    let request = GenerateRequest {
        prompt: to_prompt(prompt::prompt(system, &branch), message, ids),
        sampling: answer_settings.sampling.clone(),
        max_tokens: answer_settings.max_tokens,
        stop: answer_settings.stop.clone(),
        max_repeated: Some(shared.settings().repetition_limit).filter(|limit| *limit > 0),
        ignore_end: false,
        adapters,
        conversation: Some(message.conversation),
        thinking,
        json_schema: answer_settings.json_schema.clone(),
        on_battery: shared.on_battery.get(),
        background: false,
    };
    Ok((request, answer_settings))
}

/// The request of a title for a conversation whose first answer, by this model, has ended. Its
/// prompt continues the conversation, which the worker probably has in its KV cache. A thought is
/// not a part of later prompts, so after an answer with a thought the prompt has excerpts.
pub(super) fn build_title(
    shared: &Shared,
    target: &Target,
    answer: &Message,
) -> Result<Option<GenerateRequest>, Problem> {
    let unanswered = Message {
        parts: Vec::new(),
        ..answer.clone()
    };
    let (request, _) = build(shared, target, &unanswered)?;
    let Prompt::Chat(mut messages) = request.prompt else {
        return Ok(None);
    };
    if thinking_of(&answer.parts).is_empty() {
        messages.push(protocol::Message {
            role: Role::Assistant,
            parts: answer.parts.clone(),
        });
        messages.push(protocol::Message::of_text(Role::User, generated_title::INSTRUCTION));
    } else {
        let question = messages.last().map(protocol::Message::text).unwrap_or_default();
        let [question, text] = [question, text_of(&answer.parts)].map(excerpt);
        let prompt = format!("{question}\n\n{text}\n\n{}", generated_title::INSTRUCTION);
        messages = vec![protocol::Message::of_text(Role::User, &prompt)];
    }
    messages.push(protocol::Message::of_text(Role::Assistant, generated_title::BEGINNING));
    Ok(Some(GenerateRequest {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(generated_title::MAX_TOKENS),
        stop: generated_title::STOP.map(str::to_owned).into(),
        adapters: request.adapters,
        thinking: Thinking {
            enabled: Some(false),
            ..request.thinking
        },
        on_battery: request.on_battery,
        background: true,
        ..GenerateRequest::new(Prompt::Continue {
            messages,
            ids: Vec::new(),
        })
    }))
}

/// The first characters of a text.
fn excerpt(text: String) -> String {
    text.chars().take(MAX_EXCERPT).collect()
}

/// The conversation in which the user writes a message after `leaf`. `conversation`: `None` means a
/// new one with the settings in `fresh`.
pub(super) fn conversation_before(
    shared: &Shared,
    target: &Target,
    conversation: Option<i64>,
    leaf: Option<i64>,
    fresh: NewConversation,
) -> Result<ConversationBefore, Problem> {
    let (current, folder, training_prompt, mut branch) = shared.store.read(|t| {
        let row = conversation.map(|id| conversation::get(t, id)).transpose()?.flatten();
        let current = match &row {
            Some(row) => presets::of_conversation(row),
            None => fresh,
        };
        let folder = match row {
            Some(row) => folder::of_conversation(t, row.id)?,
            None => current.folder.map(|id| folder::get(t, id)).transpose()?.flatten(),
        };
        let training_prompt = training_prompt::find(t, &adapters::with_names(t, &current.adapters)?)?;
        let branch = leaf.map(|leaf| rows::branch(t, rows::end_of_branch(t, leaf)?));
        Ok((
            current,
            folder,
            training_prompt,
            branch.transpose()?.unwrap_or_default(),
        ))
    })?;
    branch.retain(|message| Some(message.conversation) == conversation);
    shared.complete(&mut branch);
    let own_prompt = current.system_prompt.as_deref();
    let system = system_prompt(own_prompt, folder.as_ref(), &training_prompt, target);
    Ok(ConversationBefore {
        messages: prompt::prompt(system, &branch),
        thinking: Thinking::from(over_folder(current.settings, folder.as_ref()).thinking),
    })
}

/// The system prompt of an answer: the conversation's, its folder's, the adapters' or the model's.
fn system_prompt<'a>(
    own: Option<&'a str>,
    folder: Option<&'a folder::Folder>,
    training_prompt: &'a TrainingPrompt,
    target: &'a Target,
) -> Option<&'a str> {
    let folder_prompt = folder.and_then(|folder| folder.system_prompt.as_deref());
    match (own.or(folder_prompt), training_prompt) {
        (Some(text), _) => prompt::trimmed(text),
        (None, TrainingPrompt::Template) => None,
        (None, TrainingPrompt::Text(text)) => Some(text.as_str()),
        (None, TrainingPrompt::Unknown) => target.system_prompt.as_deref().and_then(prompt::trimmed),
    }
}

/// A conversation's settings, with missing ones taken from its folder.
pub(super) fn settings(
    row: Option<&conversation::Conversation>,
    folder: Option<&folder::Folder>,
) -> ConversationSettings {
    let own = from_json(row.and_then(|row| row.settings.as_deref()));
    over_folder(own.unwrap_or_default(), folder)
}

/// Settings, with missing ones taken from the folder.
fn over_folder(own: ConversationSettings, folder: Option<&folder::Folder>) -> ConversationSettings {
    let folder_settings = from_json(folder.and_then(|folder| folder.settings.as_deref()));
    own.or(folder_settings.unwrap_or_default())
}

/// The model's default parameters from its file or the catalog, overridden by the user's defaults.
fn defaults(shared: &Shared, target: &Target) -> SamplingParams {
    let sampling = target.sampling.clone();
    match shared.settings().sampling.get(&target.id) {
        Some(own) => own.apply(sampling),
        None => sampling,
    }
}

/// The prompt of an answer, or of the continuation of `message` if that has parts. `ids` are its
/// tokens so far.
fn to_prompt(mut messages: Vec<protocol::Message>, message: &Message, ids: Vec<u32>) -> Prompt {
    if message.parts.is_empty() {
        return Prompt::Chat(messages);
    }
    messages.push(protocol::Message {
        role: Role::Assistant,
        parts: message.parts.clone(),
    });
    Prompt::Continue { messages, ids }
}

/// The parameters with a seed, so that the answer can be reproduced. Greedy decoding needs none.
fn with_seed(mut sampling: SamplingParams) -> SamplingParams {
    if sampling.temperature > 0.0 && sampling.seed.is_none() {
        // `RandomState` has random keys. JavaScript represents integers of 53 bits exactly.
        sampling.seed = Some(RandomState::new().hash_one(0) >> 11);
    }
    sampling
}
