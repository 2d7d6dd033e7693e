//! Chat templates: rendering a conversation into the text and tokens that a model was trained on.
//!
//! A template is a Jinja program from an untrusted file. It runs within limits on work and memory.
//! Markers break up the special tokens in the conversation's text before it is rendered, so that no
//! message can inject control tokens.

mod chat;
mod error;
mod jinja;
mod json;
mod quotes;
mod stack;
mod thinking;
mod turn;

pub use chat::Chat;
pub use error::TemplateError;
pub use thinking::{Thinking, ThinkingSupport};
pub use turn::{TurnPiece, encode_turn};

use crate::gguf::Gguf;
use crate::interrupt;
use crate::tokenizer::{Markers, Tokenizer};
pub(crate) use chat::Author;
use jinja::{Raised, Rewritten, budget};
use minijinja::{Environment, ErrorKind, Value, context};
use quotes::quoted;
use regex::Regex;
use stack::on_large_stack;
use std::borrow::Cow;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, OnceLock};

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its author.
    pub role: Role,
    /// Its text. Never parsed for control tokens.
    pub content: String,
}

/// Whether the model's turn is opened after the last message: a template's `add_generation_prompt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPrompt {
    /// The turn is opened, so that the model answers.
    Add,
    /// The text ends after the last message.
    Omit,
}

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
    notice: Option<String>,
    stop_strings: Vec<String>,
    /// Whether it reads a message's content only as a list of parts.
    needs_lists: OnceLock<bool>,
    /// Names of the templates that handle a message whose content is null themselves.
    ask_for_null: HashSet<&'static str>,
}

/// A test of a message's content for null.
static ASKS_FOR_NULL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\bcontent['"]?\]?\s*(is(\s+not)?|==|!=)\s*[nN]one\b"#).expect("a valid pattern"));

/// Names of the template and of the optional one for conversations with tools.
const NAME: &str = "chat_template";
const WITH_TOOLS: &str = "chat_template.tool_use";

/// Maximum instructions of a rendering. A message takes one or two hundred, so this is enough for
/// fifty thousand messages.
const FUEL: u64 = 10_000_000;

/// A text that no template renders by chance.
const PROBE: &str = "c4f1hearth7e29";

/// ChatML, for files that have its tokens but no template.
const CHAT_ML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                       {% endfor %}\
                       {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// For base models, whose files have neither a template nor ChatML's tokens.
const PLAIN: &str = "{{ bos_token }}{% for message in messages %}\
                     {% if message.role == 'system' %}{{ message.content }}\
                     {% elif message.role == 'user' %}User: {{ message.content }}\
                     {% else %}Assistant: {{ message.content }}{% endif %}{{ '\n\n' }}{% endfor %}\
                     {% if add_generation_prompt %}Assistant:{% endif %}";

/// The stop strings for [`PLAIN`]: a base model continues with the user's next message.
const PLAIN_STOPS: [&str; 2] = ["\nUser:", "\nAssistant:"];

impl ChatTemplate {
    /// The template's source, to compare it with another's.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The template of a file. A file without one gets a default, and a [`ChatTemplate::notice`].
    ///
    /// # Errors
    /// If the file's template is not a string or not valid Jinja.
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
                "This model's file has no chat template. Hearth uses ChatML, which matches its tokens; answers may be \
                 worse than with the original template."
            } else {
                "This model's file has no chat template, so it may be a base model. Hearth uses a plain template; \
                 answers may ramble."
            }
            .to_owned(),
        );
        if !chat_ml {
            plain.stop_strings = PLAIN_STOPS.map(str::to_owned).to_vec();
        }
        Ok(plain)
    }

    /// Compiles a template. `bos` and `eos` are the texts of these tokens.
    ///
    /// # Errors
    /// If it is not valid Jinja.
    pub fn parse(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        on_large_stack(|| Self::parse_on_stack(source, bos, eos))
    }

    fn parse_on_stack(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let bad = |error: minijinja::Error| TemplateError::Syntax(jinja::truncated(&error.to_string()));
        let mut environment = jinja::environment().map_err(bad)?;
        environment.set_fuel(Some(FUEL));
        let mut template = Self {
            environment,
            source: source.to_owned(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            notice: None,
            stop_strings: Vec::new(),
            needs_lists: OnceLock::new(),
            ask_for_null: HashSet::new(),
        };
        template.add(NAME, source)?;
        Ok(template)
    }

    fn add(&mut self, name: &'static str, source: &str) -> Result<(), TemplateError> {
        let unsupported = |what: &str| TemplateError::Syntax(format!("{what} is not supported"));
        if ASKS_FOR_NULL.is_match(source) {
            self.ask_for_null.insert(name);
        }
        on_large_stack(|| {
            let Rewritten { source, unreadable } = jinja::rewrite(source).map_err(unsupported)?;
            // Sources known to make minijinja panic are refused before this.
            let added = catch_unwind(AssertUnwindSafe(|| self.environment.add_template_owned(name, source)));
            match added {
                Ok(Ok(())) if unreadable => Err(unsupported("an expression in it")),
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(TemplateError::Syntax(jinja::truncated(&error.to_string()))),
                Err(_) => Err(unsupported("something in it")),
            }
        })
    }

    /// Replaces the clock of `strftime_now`.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> jiff::Zoned + Send + Sync + 'static) -> Self {
        jinja::set_clock(&mut self.environment, now);
        self
    }

    /// A sentence for the user about a default template. `None` if the file has its own.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The stop strings, in addition to end-of-generation tokens.
    pub fn stop_strings(&self) -> &[String] {
        &self.stop_strings
    }

    /// Renders messages as [`ChatTemplate::render_chat`] does.
    ///
    /// # Errors
    /// If the template refuses the conversation, fails or exceeds a limit.
    pub fn render(&self, messages: &[Message], prompt: GenerationPrompt) -> Result<String, TemplateError> {
        self.render_chat(&Chat::from(messages), prompt)
    }

    /// Renders a conversation to text, including the texts of special tokens.
    ///
    /// A system prompt that the template refuses or omits is prepended to the first user message.
    ///
    /// # Errors
    /// If the template refuses the conversation, fails or exceeds a limit.
    pub fn render_chat(&self, chat: &Chat, prompt: GenerationPrompt) -> Result<String, TemplateError> {
        on_large_stack(|| {
            self.render_on_stack(chat, prompt).map_err(|error| match error {
                TemplateError::Failed(why) if self.takes_a_message() => TemplateError::Messages(why),
                error => error,
            })
        })
    }

    /// Whether it renders one plain message. If it does and fails on a conversation, that has
    /// something the template does not expect.
    fn takes_a_message(&self) -> bool {
        self.run(&plain_chat(), GenerationPrompt::Omit).is_ok()
    }

    fn render_on_stack(&self, chat: &Chat, prompt: GenerationPrompt) -> Result<String, TemplateError> {
        let rendered = self.run(chat, prompt);
        let Some(system) = chat.system() else {
            return rendered;
        };
        match rendered {
            Ok(text) if self.shows_system(chat, prompt, &system, &text) => Ok(text),
            Err(limit @ (TemplateError::WorkLimit | TemplateError::SizeLimit | TemplateError::Interrupted)) => {
                Err(limit)
            }
            first => match self.run(&chat.without_system(), prompt) {
                Ok(text) => Ok(text),
                // The error for the original conversation explains more.
                Err(second) => first.and(Err(second)),
            },
        }
    }

    /// Tokenizes messages as [`ChatTemplate::encode_chat`] does.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        prompt: GenerationPrompt,
    ) -> Result<Vec<u32>, TemplateError> {
        self.encode_chat(tokenizer, &Chat::from(messages), prompt)
    }

    /// Renders and tokenizes a conversation. Text of the conversation never becomes a control
    /// token, and text of users and tools never becomes a token that structures the model's
    /// conversations. The result starts with exactly one BOS if the model requires one or the
    /// template writes one.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], and if the template forms control tokens from the
    /// conversation's text despite the markers.
    pub fn encode_chat(
        &self,
        tokenizer: &Tokenizer,
        chat: &Chat,
        prompt: GenerationPrompt,
    ) -> Result<Vec<u32>, TemplateError> {
        on_large_stack(|| self.encode_on_stack(tokenizer, chat, prompt))
    }

    fn encode_on_stack(
        &self,
        tokenizer: &Tokenizer,
        chat: &Chat,
        prompt: GenerationPrompt,
    ) -> Result<Vec<u32>, TemplateError> {
        let markers = Markers::unused(&|marker| chat.contains(marker));
        let words = self.words(tokenizer);
        let reads = |word: &str| words.contains(word);
        let quote = |text: &str, author| {
            let text = markers.removed_from(text);
            match author {
                // A system prompt may tell the model to use its own form.
                Author::Instructions => text.into_owned(),
                Author::Model | Author::Other => quoted(&text, chat.letters(), markers.letters),
            }
        };
        let marked = chat.map_strings(&reads, &|text, author| {
            self.mark(tokenizer, &quote(text, author), author, markers)
        });
        let mut text = self.render_chat(&marked, prompt)?;
        // A template may remove parts of a string, change it, or insert it between the ends of a
        // token. Only control tokens that also occur without any character of the conversation are
        // the template's own.
        let blank = chat.map_strings(&reads, &|text, _| tokenizer.blank(text, markers));
        let blank = self.render_chat(&blank, prompt).ok();
        let agrees = |text: &str| {
            let blank = blank.as_ref();
            blank.map(|blank| tokenizer.have_same_controls(text, blank, markers))
        };
        if agrees(&text) != Some(true) {
            // A marker at every character hides from the template the substrings it looks for, but
            // leaves little to join.
            let marked = chat.map_strings(&reads, &|text, author| {
                let text = quote(text, author);
                let text = self.mark_letters(tokenizer, &text, author, markers);
                tokenizer.mark_each_character(&text, markers.control)
            });
            text = self.render_chat(&marked, prompt)?;
            if agrees(&text) == Some(false) {
                let why = "it forms control tokens from the text of the conversation";
                return Err(TemplateError::Failed(why.to_owned()));
            }
        }
        let mut ids = tokenizer.encode_marked(&text, markers);
        if interrupt::is_set() {
            return Err(TemplateError::Interrupted);
        }
        if let Some(bos) = tokenizer
            .bos()
            .filter(|&bos| tokenizer.add_bos() && ids.first() != Some(&bos))
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Breaks up the special tokens in a text of a conversation: all control tokens, and of what
    /// the model did not write the user-defined tokens that structure its conversations.
    pub(crate) fn mark(&self, tokenizer: &Tokenizer, text: &str, author: Author, markers: Markers) -> String {
        tokenizer.mark_controls(&self.mark_letters(tokenizer, text, author, markers), markers.control)
    }

    fn mark_letters<'t>(&self, tokenizer: &Tokenizer, text: &'t str, author: Author, markers: Markers) -> Cow<'t, str> {
        match author {
            Author::Instructions | Author::Model => text.into(),
            Author::Other => tokenizer.mark_structure(text, markers, |token| self.is_structure(token)),
        }
    }

    /// Whether a user-defined token structures the model's conversations: the template knows it, or
    /// it begins or ends a thought. Others are what they look like, such as HTML's tags in Gemma's
    /// vocabulary.
    fn is_structure(&self, token: &str) -> bool {
        let with_tools = self.environment.get_template(WITH_TOOLS).ok();
        self.source.contains(token)
            || with_tools.is_some_and(|template| template.source().contains(token))
            || token.to_ascii_lowercase().contains("think")
    }

    /// The words of the template's source outside control tokens. They include the names of all
    /// fields that it reads.
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

    /// Whether the rendered text contains the system prompt. If it is not there verbatim (it may
    /// have been escaped), renders [`PROBE`] in its place and looks for that.
    fn shows_system(&self, chat: &Chat, prompt: GenerationPrompt, system: &str, rendered: &str) -> bool {
        // Templates may trim it.
        rendered.contains(system.trim())
            || self
                .run(&chat.with_system(PROBE), prompt)
                .is_ok_and(|text| text.contains(PROBE))
    }

    fn run(&self, chat: &Chat, prompt: GenerationPrompt) -> Result<String, TemplateError> {
        // Jinja prints null as `None`, which no template means.
        let is_handled = !chat.has_null_content() || self.ask_for_null.contains(self.template(chat)?.name());
        let chat = &*if is_handled {
            Cow::Borrowed(chat)
        } else {
            Cow::Owned(chat.with_empty_contents())
        };
        let messages = if self.needs_lists() {
            chat.messages_with_lists()
        } else {
            chat.messages()
        };
        self.run_with(chat, messages, prompt)
    }

    /// Templates of models that also see images may read content only as a list of
    /// `{type: "text", text}`. Whether this one does is found by rendering one message as either.
    fn needs_lists(&self) -> bool {
        if let Some(&known) = self.needs_lists.get() {
            return known;
        }
        let needs_lists = {
            let probe = plain_chat();
            // A template that writes the list itself does not read it.
            let shows = |messages: Value| {
                self.run_with(&probe, messages, GenerationPrompt::Omit)
                    .is_ok_and(|text| text.contains(PROBE) && !text.contains("'type'"))
            };
            !shows(probe.messages()) && shows(probe.messages_with_lists())
        };
        // An interrupted probe shows nothing.
        if !interrupt::is_set() {
            let _ = self.needs_lists.set(needs_lists);
        }
        needs_lists
    }

    /// The template of a conversation, which may be one for tools.
    fn template(&self, chat: &Chat) -> Result<minijinja::Template<'_, '_>, TemplateError> {
        let with_tools = chat
            .tools()
            .is_true()
            .then(|| self.environment.get_template(WITH_TOOLS));
        match with_tools {
            Some(Ok(template)) => Ok(template),
            _ => self.environment.get_template(NAME).map_err(render_error),
        }
    }

    fn run_with(&self, chat: &Chat, messages: Value, prompt: GenerationPrompt) -> Result<String, TemplateError> {
        if interrupt::look() {
            return Err(TemplateError::Interrupted);
        }
        budget::start_render(chat.bytes());
        let conversation = context! {
            messages => messages,
            tools => chat.tools(),
            documents => (),
            add_generation_prompt => prompt == GenerationPrompt::Add,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
            ..chat.thinking().variables()
        };
        // Sources known to make minijinja panic are refused before this.
        let rendered = catch_unwind(AssertUnwindSafe(|| {
            self.template(chat).map(|template| template.render(conversation))
        }));
        if let Some(limit) = budget::exceeded() {
            return Err(limit_error(limit));
        }
        match rendered {
            Ok(rendered) => rendered?.map_err(render_error),
            Err(_) => Err(TemplateError::Failed("it cannot be executed".to_owned())),
        }
    }
}

/// One message of the user.
fn plain_chat() -> Chat {
    let message = Message {
        role: Role::User,
        content: PROBE.to_owned(),
    };
    Chat::from(&[message][..])
}

/// The error for an exceeded limit.
fn limit_error(limit: budget::Limit) -> TemplateError {
    match limit {
        budget::Limit::Bytes => TemplateError::SizeLimit,
        budget::Limit::Work => TemplateError::WorkLimit,
        budget::Limit::Interrupted => TemplateError::Interrupted,
        budget::Limit::Depth => TemplateError::Failed(limit.to_string()),
    }
}

/// The error for a failed rendering.
fn render_error(error: minijinja::Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(Raised(message)) = error.downcast_ref::<Raised>() {
            return TemplateError::Raised(message.clone());
        }
        cause = error.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => TemplateError::WorkLimit,
        _ => TemplateError::Failed(jinja::truncated(&error.to_string())),
    }
}
