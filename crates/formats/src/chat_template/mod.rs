//! Chat templates: how a conversation becomes the text, and the tokens, that a model was trained on.
//!
//! A template is a Jinja program out of a file from anywhere. It runs with a limit, and what people wrote goes through it with
//! its special strings broken apart, so that no message can pass for the structure around it.

mod chat;
mod error;
mod jinja;
mod json;
mod stack;

pub use chat::Chat;
pub use error::TemplateError;

use crate::gguf::Gguf;
use crate::tokenizer::{NONCHARACTERS, Tokenizer};
use jinja::{Adapted, Raised, budget};
use minijinja::{Environment, ErrorKind, context};
use stack::with_stack;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// The names of the template and of the one for conversations with tools, where a file has one of its own.
const NAME: &str = "chat_template";
const WITH_TOOLS: &str = "chat_template.tool_use";

/// Instructions that a template may run. A message takes a hundred or two, so this is enough for fifty thousand of them.
const FUEL: u64 = 10_000_000;

/// A system prompt that no template could render by chance.
const PROBE: &str = "c4f1hearth7e29";

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
            let mut template = Self::parse(source, &bos, &eos)?;
            if let Some(source) = gguf.str("tokenizer.chat_template.tool_use")? {
                template.add(WITH_TOOLS, source)?;
            }
            return Ok(template);
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
        with_stack(|| Self::parse_here(source, bos, eos))
    }

    fn parse_here(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let bad = |error: minijinja::Error| TemplateError::Syntax(jinja::beginning(&error.to_string()));
        let mut environment = jinja::environment().map_err(bad)?;
        environment.set_fuel(Some(FUEL));
        let mut template = Self {
            environment,
            source: source.to_owned(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            notice: None,
            stop_strings: Vec::new(),
        };
        template.add(NAME, source)?;
        Ok(template)
    }

    fn add(&mut self, name: &'static str, source: &str) -> Result<(), TemplateError> {
        let unsupported = |what: &str| TemplateError::Syntax(format!("{what} is not supported"));
        with_stack(|| {
            let Adapted { source, unreadable } = jinja::adapt(source).map_err(unsupported)?;
            // What makes minijinja panic is refused beforehand, as far as it is known.
            let added = catch_unwind(AssertUnwindSafe(|| self.environment.add_template_owned(name, source)));
            match added {
                Ok(Ok(())) if unreadable => Err(unsupported("an expression in it")),
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(TemplateError::Syntax(jinja::beginning(&error.to_string()))),
                Err(_) => Err(unsupported("something in it")),
            }
        })
    }

    /// The template with another clock for the dates that it asks for.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> jiff::Zoned + Send + Sync + 'static) -> Self {
        jinja::set_clock(&mut self.environment, now);
        self
    }

    /// What a person should know of this template, if anything: a whole sentence.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Texts at which an answer ends, beside the tokens that end one.
    pub fn stop_strings(&self) -> &[String] {
        &self.stop_strings
    }

    /// The text of a conversation, special tokens written out; as [`ChatTemplate::render_chat`].
    ///
    /// # Errors
    /// Where the template refuses the conversation, fails or does not end.
    pub fn render(&self, messages: &[Message], turn: Turn) -> Result<String, TemplateError> {
        self.render_chat(&Chat::from(messages), turn)
    }

    /// The text of a conversation, special tokens written out.
    ///
    /// A system prompt that the template refuses or leaves out goes before the first message of the person.
    ///
    /// # Errors
    /// Where the template refuses the conversation, fails or does not end.
    pub fn render_chat(&self, chat: &Chat, turn: Turn) -> Result<String, TemplateError> {
        with_stack(|| self.render_here(chat, turn))
    }

    fn render_here(&self, chat: &Chat, turn: Turn) -> Result<String, TemplateError> {
        let rendered = self.run(chat, turn);
        let Some(system) = chat.system() else {
            return rendered;
        };
        match rendered {
            Ok(text) if self.keeps(chat, turn, &system, &text) => Ok(text),
            Err(overstepped @ (TemplateError::Endless | TemplateError::TooMuch)) => Err(overstepped),
            first => match self.run(&chat.without_system(), turn) {
                Ok(text) => Ok(text),
                // What it said of the conversation as it is explains more.
                Err(second) => first.and(Err(second)),
            },
        }
    }

    /// The tokens of a conversation; as [`ChatTemplate::encode_chat`].
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn encode(&self, tokenizer: &Tokenizer, messages: &[Message], turn: Turn) -> Result<Vec<u32>, TemplateError> {
        self.encode_chat(tokenizer, &Chat::from(messages), turn)
    }

    /// The tokens of a conversation. No text in it becomes a special token, whatever it looks like. A BOS stands at the
    /// beginning, once, where the model wants one or the template writes one.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], and if the template makes control tokens of text in spite of marks.
    pub fn encode_chat(&self, tokenizer: &Tokenizer, chat: &Chat, turn: Turn) -> Result<Vec<u32>, TemplateError> {
        with_stack(|| self.encode_here(tokenizer, chat, turn))
    }

    fn encode_here(&self, tokenizer: &Tokenizer, chat: &Chat, turn: Turn) -> Result<Vec<u32>, TemplateError> {
        let marker = unused_noncharacter(chat);
        let words = self.words(tokenizer);
        let reads = |word: &str| words.contains(word);
        let marked = chat.map_texts(&reads, &|text| tokenizer.mark_controls(text, marker));
        let mut text = self.render_chat(&marked, turn)?;
        // A template may take parts out of a text, change it, or put it between the ends of a token. Only the control tokens
        // that are there without any character of the conversation are the template's.
        let blank = chat.map_texts(&reads, &|text| tokenizer.blank(text, marker));
        let blank = self.render_chat(&blank, turn).ok();
        let agrees = |text: &str| {
            let blank = blank.as_ref();
            blank.map(|blank| tokenizer.have_same_controls(text, blank, marker))
        };
        if agrees(&text) != Some(true) {
            // A mark at every character hides from the template what it looks for, but leaves hardly anything to join.
            let marked = chat.map_texts(&reads, &|text| tokenizer.mark_each_character(text, marker));
            text = self.render_chat(&marked, turn)?;
            if agrees(&text) == Some(false) {
                let why = "it joins text of the conversation into control tokens";
                return Err(TemplateError::Failed(why.to_owned()));
            }
        }
        let mut ids = tokenizer.encode_marked(&text, marker);
        if let Some(bos) = tokenizer
            .bos()
            .filter(|&bos| tokenizer.add_bos() && ids.first() != Some(&bos))
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// The words of the template's source, among them the names of the fields that it reads, but for those inside of control
    /// tokens.
    fn words(&self, tokenizer: &Tokenizer) -> HashSet<String> {
        let with_tools = self.environment.get_template(WITH_TOOLS).ok();
        let with_tools = with_tools.as_ref().map_or("", |template| template.source());
        [&*self.source, with_tools]
            .map(|source| tokenizer.without_controls(source))
            .iter()
            .flat_map(|source| source.split(|c: char| !chat::is_part_of_word(c)))
            .map(|word| word.trim_matches('-').to_owned())
            .collect()
    }

    /// Whether what was rendered tells the model the system prompt. Where it is not there word for word, as after escaping, a
    /// word in its place shows.
    fn keeps(&self, chat: &Chat, turn: Turn, system: &str, rendered: &str) -> bool {
        // White space at the ends is for the template to trim.
        rendered.contains(system.trim())
            || self
                .run(&chat.with_system(PROBE), turn)
                .is_ok_and(|text| text.contains(PROBE))
    }

    fn run(&self, chat: &Chat, turn: Turn) -> Result<String, TemplateError> {
        budget::begin(chat.bytes());
        let conversation = context! {
            messages => chat.messages(),
            tools => chat.tools(),
            documents => (),
            add_generation_prompt => turn == Turn::Answer,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
        };
        // What makes minijinja panic is refused beforehand, as far as it is known.
        let rendered = catch_unwind(AssertUnwindSafe(|| {
            let with_tools = chat
                .tools()
                .is_true()
                .then(|| self.environment.get_template(WITH_TOOLS));
            let template = match with_tools {
                Some(Ok(template)) => template,
                _ => self.environment.get_template(NAME)?,
            };
            template.render(conversation)
        }));
        if let Some(overstep) = budget::overstepped() {
            return Err(overstepped(overstep));
        }
        match rendered {
            Ok(rendered) => rendered.map_err(failure),
            Err(_) => Err(TemplateError::Failed("it cannot be carried out".to_owned())),
        }
    }
}

/// What a run means that took more than it may.
fn overstepped(overstep: budget::Overstep) -> TemplateError {
    match overstep {
        budget::Overstep::Bytes => TemplateError::TooMuch,
        budget::Overstep::Work => TemplateError::Endless,
        budget::Overstep::Depth => TemplateError::Failed(overstep.to_string()),
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
        _ => TemplateError::Failed(jinja::beginning(&error.to_string())),
    }
}

/// A character that is none, and that no text of the conversation holds, to mark special strings with.
fn unused_noncharacter(chat: &Chat) -> char {
    // Whoever writes all 32 of them loses the last.
    let mut markers = NONCHARACTERS;
    markers
        .find(|&marker| !chat.contains(marker))
        .unwrap_or(*NONCHARACTERS.end())
}
