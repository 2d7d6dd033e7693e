//! The request of an answer: the branch of its conversation, its system prompt and its adapters.

use super::{Target, prompt};
use crate::{
    adapters,
    shared::Shared,
    store::{conversation, message as rows},
    wire::{Message, Problem},
};
use hearth_protocol::{GenerateRequest, Prompt};

/// Most tokens of one answer: ends the loop of a small model that repeats itself; a person can ask
/// for more.
const MAX_ANSWER_TOKENS: u32 = 2048;

/// The request of an answer by this model.
pub(super) fn of(shared: &Shared, target: &Target, message: &Message) -> Result<GenerateRequest, Problem> {
    let adapters = adapters::for_worker(shared, &target.id, &message.adapters)?;
    let (own, mut branch) = shared.store.read(|t| {
        let own = conversation::get(t, message.conversation)?.and_then(|row| row.system_prompt);
        let branch = message.parent.map(|parent| rows::branch(t, parent)).transpose()?;
        Ok((own, branch.unwrap_or_default()))
    })?;
    // Messages that a full disk kept out of the store are part of the conversation, too.
    shared.complete(&mut branch);
    let system = own.as_deref().or(target.system_prompt.as_deref());
    Ok(GenerateRequest {
        prompt: Prompt::Chat(prompt::prompt(system, &branch)),
        sampling: target.sampling.clone(),
        max_tokens: Some(MAX_ANSWER_TOKENS),
        stop: Vec::new(),
        ignore_end: false,
        adapters,
        conversation: Some(message.conversation),
    })
}
