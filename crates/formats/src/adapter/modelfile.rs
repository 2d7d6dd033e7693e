//! A Modelfile, by which Ollama takes a model and its adapter.

use crate::chat_template::{ChatTemplate, Message, Role, Turn};
use std::path::Path;

/// The text of a Modelfile for a GGUF, with an adapter or without, a chat template and parameters such as
/// `("temperature", "0.2")`. Paths are written as they are given; Ollama takes them from the Modelfile's folder.
///
/// A TEMPLATE is written only where the model's own is ChatML, word for word, since Ollama's language is another; elsewhere
/// Ollama picks one by what the GGUF says, and a comment tells the person to look.
pub fn modelfile(
    base: &Path,
    adapter: Option<&Path>,
    template: Option<&ChatTemplate>,
    parameters: &[(&str, &str)],
) -> String {
    let mut text = format!("FROM {}\n", value(&base.display().to_string()));
    if let Some(adapter) = adapter {
        text += &format!("ADAPTER {}\n", value(&adapter.display().to_string()));
    }
    for (name, given) in parameters {
        text += &format!("PARAMETER {name} {}\n", value(given));
    }
    match template.and_then(chat_ml) {
        Some(system) => {
            text += "PARAMETER stop \"<|im_end|>\"\n";
            text += &format!("TEMPLATE \"\"\"{CHAT_ML}\"\"\"\n");
            if !system.is_empty() {
                text += &format!("SYSTEM {}\n", value(&system));
            }
        }
        None => {
            text += "# No TEMPLATE: Ollama chooses one by the chat template in the GGUF. Check with 'ollama show --template' that it \
                     is the same.\n";
        }
    }
    text
}

/// ChatML in Ollama's language. Its messages begin with the system prompt, if there is one.
const CHAT_ML: &str =
    "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n";

/// Whether a template is ChatML, found out by using it; then the system prompt it adds where there is none, which may be empty.
fn chat_ml(template: &ChatTemplate) -> Option<String> {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let talk = [
        message(Role::User, "One?"),
        message(Role::Assistant, "Two."),
        message(Role::User, "Three?"),
    ];
    let turns = "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\nTwo.<|im_end|>\n<|im_start|>user\nThree?<|im_end|>\n\
                 <|im_start|>assistant\n";
    let system = |text: &str| format!("<|im_start|>system\n{text}<|im_end|>\n");

    let mut instructed = vec![message(Role::System, "Zero.")];
    instructed.extend(talk.iter().cloned());
    let with_system = template.render(&instructed, Turn::Answer).ok()?;
    if with_system != system("Zero.") + turns {
        return None;
    }
    let without = template.render(&talk, Turn::Answer).ok()?;
    let added = without.strip_suffix(turns)?;
    if added.is_empty() {
        return Some(String::new());
    }
    let text = added
        .strip_prefix("<|im_start|>system\n")?
        .strip_suffix("<|im_end|>\n")?;
    Some(text.to_owned())
}

/// A value as it stands on its line, in quotes where it would not come back otherwise.
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
