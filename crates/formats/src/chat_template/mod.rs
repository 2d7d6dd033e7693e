//! Chat templates: how a conversation becomes the text, and the tokens, that a model was trained on.
//!
//! A template is a Jinja program out of a file from anywhere. It runs with a limit, and what people wrote goes through it with
//! its special strings broken apart, so that no message can pass for the structure around it.

mod error;
mod functions;
mod json;

pub use error::TemplateError;

use crate::gguf::Gguf;
use crate::tokenizer::Tokenizer;
use functions::Raised;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions that hold for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said; never read for special tokens.
    pub content: String,
}

/// What comes after the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The model's answer: its turn is opened.
    Answer,
    /// Nothing.
    Closed,
}

/// A model's chat template, ready to use.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
    notice: Option<String>,
    stop_strings: Vec<String>,
}

/// The name of the only template in its environment.
const NAME: &str = "chat_template";

/// Instructions that a template may run. A message takes a hundred or two, so this is enough for fifty thousand of them.
const FUEL: u64 = 10_000_000;

/// For models that were trained on conversations, with the usual tokens, but whose file has lost its template.
const CHAT_ML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
                       {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// For models that know nothing of conversations.
const PLAIN: &str = "{{ bos_token }}{% for message in messages %}\
                     {% if message.role == 'system' %}{{ message.content }}\
                     {% elif message.role == 'user' %}User: {{ message.content }}\
                     {% else %}Assistant: {{ message.content }}{% endif %}{{ '\n\n' }}{% endfor %}\
                     {% if add_generation_prompt %}Assistant:{% endif %}";

/// Texts at which an answer to [`PLAIN`] ends: the model goes on with the person's part.
const PLAIN_STOPS: [&str; 2] = ["\nUser:", "\nAssistant:"];

impl ChatTemplate {
    /// The template's text, for telling it from another.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The template of a file, or a plain one where it has none; then [`ChatTemplate::notice`] says so.
    ///
    /// # Errors
    /// Where the file's template is no valid Jinja or no text.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TemplateError> {
        let texts = gguf.strings("tokenizer.ggml.tokens")?;
        let text_of = |key: &str| -> Result<String, TemplateError> {
            let id = gguf.u32(key)?;
            let text = texts.zip(id).and_then(|(texts, id)| texts.get(id as usize));
            Ok(text.unwrap_or_default().to_owned())
        };
        let bos = text_of("tokenizer.ggml.bos_token_id")?;
        let eos = text_of("tokenizer.ggml.eos_token_id")?;
        if let Some(source) = gguf.str("tokenizer.chat_template")? {
            return Self::parse(source, &bos, &eos);
        }
        let chat_ml = texts.is_some_and(|texts| {
            texts
                .iter()
                .filter(|text| ["<|im_start|>", "<|im_end|>"].contains(text))
                .count()
                == 2
        });
        let mut plain = Self::parse(if chat_ml { CHAT_ML } else { PLAIN }, &bos, &eos)?;
        plain.notice = Some(
            if chat_ml {
                "This model's file has no chat template. The usual one for its tokens is used, so answers may be worse than the \
                 model's best."
            } else {
                "This model's file has no chat template, so it may not have been made for conversations. A plain one is used, and \
                 answers may ramble."
            }
            .to_owned(),
        );
        if !chat_ml {
            plain.stop_strings = PLAIN_STOPS.map(str::to_owned).to_vec();
        }
        Ok(plain)
    }

    /// Reads a template, given the texts of the tokens that begin and end a text.
    ///
    /// # Errors
    /// Where it is no valid Jinja.
    pub fn parse(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| TemplateError::Syntax(error.to_string()))?);
        environment.set_fuel(Some(FUEL));
        functions::add(&mut environment);
        let source = without_training_marks(source);
        environment
            .add_template_owned(NAME, source.clone())
            .map_err(|error| TemplateError::Syntax(error.to_string()))?;
        Ok(Self {
            environment,
            source,
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            notice: None,
            stop_strings: Vec::new(),
        })
    }

    /// What a person should know of this template, if anything: a whole sentence.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Texts at which an answer ends, beside the tokens that end one.
    pub fn stop_strings(&self) -> &[String] {
        &self.stop_strings
    }

    /// The text of a conversation, special tokens written out.
    ///
    /// A system prompt that the template refuses or leaves out goes before the first message of the person.
    ///
    /// # Errors
    /// Where the template refuses the conversation, fails or does not end.
    pub fn render(&self, messages: &[Message], turn: Turn) -> Result<String, TemplateError> {
        let rendered = self.run(messages, turn);
        let Some(system) = messages.iter().find(|message| message.role == Role::System) else {
            return rendered;
        };
        // White space at the ends is for the template to trim.
        let kept = |text: &String| text.contains(system.content.trim());
        match rendered {
            Ok(text) if kept(&text) => Ok(text),
            Err(TemplateError::Endless) => Err(TemplateError::Endless),
            first => match self.run(&without_system(messages), turn) {
                Ok(text) => Ok(text),
                // What it said of the conversation as it is explains more.
                Err(second) => first.and(Err(second)),
            },
        }
    }

    /// The tokens of a conversation. No message's text becomes a special token, whatever it looks like. A BOS stands at the
    /// beginning, once, where the model wants one or the template writes one.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn encode(&self, tokenizer: &Tokenizer, messages: &[Message], turn: Turn) -> Result<Vec<u32>, TemplateError> {
        let marker = unused_noncharacter(messages);
        let marked: Vec<Message> = messages
            .iter()
            .map(|message| Message {
                role: message.role,
                content: tokenizer.mark_controls(&message.content, marker),
            })
            .collect();
        let text = self.render(&marked, turn)?;
        let mut ids = tokenizer.encode_marked(&text, marker);
        if let Some(bos) = tokenizer
            .bos()
            .filter(|&bos| tokenizer.add_bos() && ids.first() != Some(&bos))
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    fn run(&self, messages: &[Message], turn: Turn) -> Result<String, TemplateError> {
        let role = |role| match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let messages: Vec<Value> = messages
            .iter()
            .map(|m| context! { role => role(m.role), content => m.content.as_str() })
            .collect();
        let conversation = context! {
            messages => messages,
            add_generation_prompt => turn == Turn::Answer,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
            // Templates ask whether these are none, not whether they are there.
            tools => (),
            documents => (),
        };
        let template = self.environment.get_template(NAME).map_err(failure)?;
        template.render(conversation).map_err(failure)
    }
}

/// What a failed run means.
fn failure(error: minijinja::Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(Raised(message)) = error.downcast_ref::<Raised>() {
            return TemplateError::Raised(message.clone());
        }
        cause = error.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => TemplateError::Endless,
        _ => TemplateError::Failed(error.to_string()),
    }
}

/// The conversation with its system prompt put before the first message of the person.
fn without_system(messages: &[Message]) -> Vec<Message> {
    let (system, mut rest): (Vec<Message>, Vec<Message>) = messages
        .iter()
        .cloned()
        .partition(|message| message.role == Role::System);
    let system: Vec<String> = system.into_iter().map(|message| message.content).collect();
    let system = system.join("\n\n");
    match rest.iter_mut().find(|message| message.role == Role::User) {
        Some(first) => first.content = format!("{system}\n\n{}", first.content),
        None => rest.insert(
            0,
            Message {
                role: Role::User,
                content: system,
            },
        ),
    }
    rest
}

/// A template as it is for chat: `{% generation %}` only tells training which text is the model's.
fn without_training_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let word = tag
            .trim_start_matches("{%")
            .trim_end_matches("%}")
            .trim_matches(['-', '+'])
            .trim();
        match word {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A character that is none, and that no message holds, to mark special strings with.
fn unused_noncharacter(messages: &[Message]) -> char {
    let unused = |&marker: &char| !messages.iter().any(|message| message.content.contains(marker));
    // Whoever writes all 32 of them loses the last.
    ('\u{fdd0}'..='\u{fdef}').find(unused).unwrap_or('\u{fdef}')
}
