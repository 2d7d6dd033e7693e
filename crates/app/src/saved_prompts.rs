//! Methods of [`App`] for saved prompts.

use crate::{
    App,
    announce::Topic,
    shared::Shared,
    store::saved_prompt,
    wire::{ChatReason, Event, Problem, ProblemCode, SavedPrompt},
};

/// Most characters of a name.
const MAX_NAME: usize = 40;
/// Most bytes of a text.
const MAX_TEXT: usize = 256 << 10;
/// Most saved prompts of the user.
const MAX_PROMPTS: usize = 2000;

impl App {
    /// The saved prompts, by name.
    pub async fn saved_prompts(&self) -> Result<Vec<SavedPrompt>, Problem> {
        self.shared.blocking(list).await
    }

    /// Saves a new prompt, or changes the one with this id.
    pub async fn save_prompt(&self, id: Option<i64>, name: String, text: String) -> Result<SavedPrompt, Problem> {
        check(&name, &text)?;
        self.change_prompts(move |shared| {
            let saved = shared.store.write(|t| {
                if saved_prompt::is_taken(t, &name, id)? {
                    let name = name.clone();
                    return Ok(Err(refused(ChatReason::PromptNameTaken { name })));
                }
                let id = match id {
                    Some(id) => saved_prompt::update(t, id, &name, &text)?.then_some(id),
                    None if saved_prompt::list(t)?.len() >= MAX_PROMPTS => {
                        return Ok(Err(refused(ChatReason::TooManyPrompts { limit: MAX_PROMPTS })));
                    }
                    None => Some(saved_prompt::create(t, &name, &text)?),
                };
                Ok(id.ok_or_else(no_prompt))
            })?;
            Ok(SavedPrompt { id: saved?, name, text })
        })
        .await
    }

    /// Deletes a prompt.
    pub async fn delete_prompt(&self, id: i64) -> Result<(), Problem> {
        self.change_prompts(move |shared| {
            if shared.store.write(|t| saved_prompt::delete(t, id))? {
                Ok(())
            } else {
                Err(no_prompt())
            }
        })
        .await
    }

    /// Changes prompts and announces them.
    async fn change_prompts<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Shared) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.shared
            .blocking(move |shared| {
                let changed = change(shared)?;
                let event = || Ok::<_, Problem>(Event::PromptsChanged { prompts: list(shared)? });
                shared.announcer.announce(Topic::Prompts, event)?;
                Ok(changed)
            })
            .await
    }
}

fn list(shared: &Shared) -> Result<Vec<SavedPrompt>, Problem> {
    let rows = shared.store.read(|t| saved_prompt::list(t))?;
    let to_wire = |row: saved_prompt::SavedPrompt| SavedPrompt {
        id: row.id,
        name: row.name,
        text: row.text,
    };
    Ok(rows.into_iter().map(to_wire).collect())
}

/// Refuses a name or a text outside its limits.
fn check(name: &str, text: &str) -> Result<(), Problem> {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.chars().count() > MAX_NAME || !name.chars().all(is_allowed) {
        return Err(refused(ChatReason::PromptName { limit: MAX_NAME }));
    }
    if text.trim().is_empty() || text.len() > MAX_TEXT {
        return Err(refused(ChatReason::PromptText { limit: MAX_TEXT }));
    }
    Ok(())
}

fn refused(reason: ChatReason) -> Problem {
    Problem::new(ProblemCode::BadRequest, reason)
}

fn no_prompt() -> Problem {
    Problem::new(ProblemCode::NotFound, ChatReason::NoPrompt)
}
