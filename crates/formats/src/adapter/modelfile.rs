//! Ollama Modelfiles for a model and its adapter.

use crate::chat_template::{ChatTemplate, GenerationPrompt, Message, Role};
use std::path::Path;

/// The text of a Modelfile for a GGUF, with an optional adapter, a chat template and parameters
/// such as `("temperature", "0.2")`. `system_prompt` is the one of the training, by default the
/// template's. Paths are written verbatim; Ollama resolves them relative to
/// the Modelfile's folder. A TEMPLATE is written only if the model's own renders exactly as ChatML,
/// since Ollama uses another template language. Otherwise Ollama picks one from the GGUF, and a
/// comment says to check it.
pub fn modelfile(
    base: &Path,
    adapter: Option<&Path>,
    template: Option<&ChatTemplate>,
    system_prompt: Option<&str>,
    parameters: &[(&str, &str)],
) -> String {
    let mut text = format!("FROM {}\n", value(&base.display().to_string()));
    if let Some(adapter) = adapter {
        text += &format!("ADAPTER {}\n", value(&adapter.display().to_string()));
    }
    for (name, setting) in parameters {
        text += &format!("PARAMETER {name} {}\n", value(setting));
    }
    let default_prompt = template.and_then(chat_ml);
    match &default_prompt {
        Some(_) => {
            text += "PARAMETER stop \"<|im_end|>\"\n";
            text += &format!("TEMPLATE \"\"\"{CHAT_ML}\"\"\"\n");
        }
        None => {
            text += "# No TEMPLATE: Ollama chooses one from the chat template in the GGUF. Check with 'ollama show \
             --template' that it \
                     is the same.\n";
        }
    }
    let system_prompt = system_prompt.or(default_prompt.as_deref()).unwrap_or_default();
    if !system_prompt.is_empty() {
        text += &format!("SYSTEM {}\n", value(system_prompt));
    }
    text
}

/// ChatML in Ollama's template language. `.Messages` starts with the system prompt, if there is
/// one.
const CHAT_ML: &str =
    "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n";

/// Checks by rendering whether a template is ChatML. Returns its default system prompt, which may
/// be empty; `None` if it is not ChatML.
fn chat_ml(template: &ChatTemplate) -> Option<String> {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let turns = [
        message(Role::User, "One?"),
        message(Role::Assistant, "Two."),
        message(Role::User, "Three?"),
    ];
    let expected = "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\nTwo.<|im_end|>\n<|im_start|>user\nThree?<|im_end|>\n\
                 <|im_start|>assistant\n";
    let system = |text: &str| format!("<|im_start|>system\n{text}<|im_end|>\n");

    let mut with_system = vec![message(Role::System, "Zero.")];
    with_system.extend(turns.iter().cloned());
    let rendered = template.render(&with_system, GenerationPrompt::Add).ok()?;
    if rendered != system("Zero.") + expected {
        return None;
    }
    let without = template.render(&turns, GenerationPrompt::Add).ok()?;
    let added = without.strip_suffix(expected)?;
    if added.is_empty() {
        return Some(String::new());
    }
    let text = added
        .strip_prefix("<|im_start|>system\n")?
        .strip_suffix("<|im_end|>\n")?;
    Some(text.to_owned())
}

/// A parameter value, quoted if it would not be read back unchanged otherwise.
fn value(text: &str) -> String {
    let quotes = if text.contains(['\n', '"']) || text.trim() != text || text.is_empty() {
        "\"\"\""
    } else if text.contains(' ') {
        "\""
    } else {
        ""
    };
    format!("{quotes}{}{quotes}", text.replace("\"\"\"", "'''"))
}
