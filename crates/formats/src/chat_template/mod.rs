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
mod unsent;

pub use chat::Chat;
pub use error::TemplateError;
pub use thinking::{Thinking, ThinkingSupport};
pub use turn::{TurnPiece, encode_turn};
pub use unsent::{Frame, PLACEHOLDER, UnsentText};

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

/// The author of a message.
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
    /// The author.
    pub role: Role,
    /// The text. Never parsed for control tokens.
    pub content: String,
}

/// The value of a template's `add_generation_prompt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPrompt {
    /// Opens the model's turn after the last message.
    Add,
    /// Ends after the last message.
    Omit,
}

/// The origin of a chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateOrigin {
    /// The model's file.
    File,
    /// ChatML, for a file without a template whose vocabulary has ChatML's tokens.
    ChatMl,
    /// A plain default, for any other file without a template.
    Plain,
}

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
    origin: TemplateOrigin,
    stop_strings: Vec<String>,
    /// Whether the template reads a message's content only as a list of parts.
    needs_content_parts: OnceLock<bool>,
    /// Names of the templates that test a message's content for null.
    null_testing_templates: HashSet<&'static str>,
}

/// Matches a test of a message's content for null.
static NULL_TEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\bcontent['"]?\]?\s*(is(\s+not)?|==|!=)\s*[nN]one\b"#).expect("a valid pattern"));

/// Name of the template in its environment.
const NAME: &str = "chat_template";
/// Name of the optional template for conversations with tools.
const WITH_TOOLS: &str = "chat_template.tool_use";

/// Maximum instructions of a rendering. A message takes one or two hundred, so this is enough for
/// fifty thousand messages.
const FUEL: u64 = 10_000_000;

/// A text that occurs in no template.
const PROBE: &str = "c4f1hearth7e29";

/// ChatML, for files that have its tokens but no template.
const CHAT_ML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                       {% endfor %}\
                       {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The template for base models, whose files have neither a template nor ChatML's tokens.
const PLAIN: &str = "{{ bos_token }}{% for message in messages %}\
                     {% if message.role == 'system' %}{{ message.content }}\
                     {% elif message.role == 'user' %}User: {{ message.content }}\
                     {% else %}Assistant: {{ message.content }}{% endif %}{{ '\n\n' }}{% endfor %}\
                     {% if add_generation_prompt %}Assistant:{% endif %}";

/// The stop strings for [`PLAIN`]. A base model would continue with the user's next message.
const PLAIN_STOPS: [&str; 2] = ["\nUser:", "\nAssistant:"];

impl ChatTemplate {
    /// The template's source, for comparison with another template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The template of a file, or a default if it has none. See [`ChatTemplate::origin`].
    ///
    /// # Errors
    /// If the file's template is not a string or not valid Jinja.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TemplateError> {
        let tokens = gguf.strings("tokenizer.ggml.tokens")?;
        let special_token = |key: &str| -> Result<String, TemplateError> {
            let id = gguf.u32(key)?;
            let token = tokens.zip(id).and_then(|(tokens, id)| tokens.get(id as usize));
            Ok(token.unwrap_or_default().to_owned())
        };
        let bos = special_token("tokenizer.ggml.bos_token_id")?;
        let eos = special_token("tokenizer.ggml.eos_token_id")?;
        if let Some(source) = gguf.str("tokenizer.chat_template")? {
            let mut template = Self::parse(source, &bos, &eos)?;
            if let Some(source) = gguf.str("tokenizer.chat_template.tool_use")? {
                template.add(WITH_TOOLS, source)?;
            }
            return Ok(template);
        }
        let is_chat_ml = tokens.is_some_and(|tokens| {
            tokens
                .iter()
                .filter(|token| ["<|im_start|>", "<|im_end|>"].contains(token))
                .count()
                == 2
        });
        let mut template = Self::parse(if is_chat_ml { CHAT_ML } else { PLAIN }, &bos, &eos)?;
        template.origin = if is_chat_ml {
            TemplateOrigin::ChatMl
        } else {
            TemplateOrigin::Plain
        };
        if !is_chat_ml {
            template.stop_strings = PLAIN_STOPS.map(str::to_owned).to_vec();
        }
        Ok(template)
    }

    /// Compiles a template. `bos` and `eos` are the texts of these tokens.
    ///
    /// # Errors
    /// If it is not valid Jinja.
    pub fn parse(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        on_large_stack(|| Self::parse_on_stack(source, bos, eos))
    }

    fn parse_on_stack(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let syntax_error = |error: minijinja::Error| TemplateError::Syntax(jinja::truncated(&error.to_string()));
        let mut environment = jinja::environment().map_err(syntax_error)?;
        environment.set_fuel(Some(FUEL));
        let mut template = Self {
            environment,
            source: source.to_owned(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            origin: TemplateOrigin::File,
            stop_strings: Vec::new(),
            needs_content_parts: OnceLock::new(),
            null_testing_templates: HashSet::new(),
        };
        template.add(NAME, source)?;
        Ok(template)
    }

    fn add(&mut self, name: &'static str, source: &str) -> Result<(), TemplateError> {
        let unsupported = |what: &str| TemplateError::Syntax(format!("{what} is not supported"));
        if NULL_TEST.is_match(source) {
            self.null_testing_templates.insert(name);
        }
        on_large_stack(|| {
            let Rewritten { source, unreadable } = jinja::rewrite(source).map_err(unsupported)?;
            // `rewrite` refuses sources that are known to make minijinja panic.
            let result = catch_unwind(AssertUnwindSafe(|| self.environment.add_template_owned(name, source)));
            match result {
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

    /// The origin of the template.
    pub fn origin(&self) -> TemplateOrigin {
        self.origin
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
                TemplateError::Failed(why) if self.renders_a_plain_message() => TemplateError::Messages(why),
                error => error,
            })
        })
    }

    /// Whether the template renders one plain message. If so, a failure on a conversation is caused
    /// by its messages.
    fn renders_a_plain_message(&self) -> bool {
        self.run(&probe_chat(), GenerationPrompt::Omit).is_ok()
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
            original => match self.run(&chat.without_system(), prompt) {
                Ok(text) => Ok(text),
                // The error for the original conversation, if any, explains more.
                Err(error) => original.and(Err(error)),
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
        let (text, markers) = self.render_marked(tokenizer, chat, prompt)?;
        encode_rendered(tokenizer, &text, markers)
    }

    /// Renders a conversation with markers in the special tokens of its texts.
    fn render_marked(
        &self,
        tokenizer: &Tokenizer,
        chat: &Chat,
        prompt: GenerationPrompt,
    ) -> Result<(String, Markers), TemplateError> {
        let markers = Markers::unused(&|marker| chat.contains(marker));
        let words = self.words(tokenizer);
        let is_read = |word: &str| words.contains(word);
        let quote = |text: &str, author| {
            let text = markers.removed_from(text);
            match author {
                // A system prompt may describe the model's markup.
                Author::Instructions => text.into_owned(),
                Author::Model | Author::Other => quoted(&text, chat.literals(), markers.literal),
            }
        };
        let marked = chat.map_strings(&is_read, &|text, author| {
            self.mark(tokenizer, &quote(text, author), author, markers)
        });
        let mut text = self.render_chat(&marked, prompt)?;
        // A template may remove parts of a string, change it, or insert it between the ends of a
        // token, and so form a control token despite the markers. It wrote a control token itself
        // only if the token is also there when all characters of the conversation are replaced.
        let blank = chat.map_strings(&is_read, &|text, _| tokenizer.blank_controls(text, markers));
        let blank = self.render_chat(&blank, prompt).ok();
        let has_same_controls = |text: &str| {
            let blank = blank.as_ref();
            blank.map(|blank| tokenizer.have_same_controls(text, blank, markers))
        };
        if has_same_controls(&text) != Some(true) {
            // With a marker at every character a template can hardly form a token, but it also does
            // not find the substrings that it looks for.
            let marked = chat.map_strings(&is_read, &|text, author| {
                let text = quote(text, author);
                let text = self.mark_structure(tokenizer, &text, author, markers);
                tokenizer.mark_each_character(&text, markers.control)
            });
            text = self.render_chat(&marked, prompt)?;
            if has_same_controls(&text) == Some(false) {
                let why = "it forms control tokens from the text of the conversation";
                return Err(TemplateError::Failed(why.to_owned()));
            }
        }
        Ok((text, markers))
    }

    /// Breaks up the special tokens in a text of a conversation: all control tokens, and in text of
    /// users and tools also the user-defined tokens that structure the model's conversations.
    pub(crate) fn mark(&self, tokenizer: &Tokenizer, text: &str, author: Author, markers: Markers) -> String {
        tokenizer.mark_controls(&self.mark_structure(tokenizer, text, author, markers), markers.control)
    }

    fn mark_structure<'t>(
        &self,
        tokenizer: &Tokenizer,
        text: &'t str,
        author: Author,
        markers: Markers,
    ) -> Cow<'t, str> {
        match author {
            Author::Instructions | Author::Model => text.into(),
            Author::Other => tokenizer.mark_structure(text, markers, |token| self.is_structure(token)),
        }
    }

    /// Whether a user-defined token structures the model's conversations: the template contains it,
    /// or it begins or ends a thought. Others are ordinary text, such as the HTML tags in Gemma's
    /// vocabulary.
    fn is_structure(&self, token: &str) -> bool {
        let with_tools = self.environment.get_template(WITH_TOOLS).ok();
        self.source.contains(token)
            || with_tools.is_some_and(|template| template.source().contains(token))
            || token.to_ascii_lowercase().contains("think")
    }

    /// The words of the template's source outside control tokens. They include all names of fields
    /// that the template reads.
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

    /// Whether the rendered text contains the system prompt. If it does not contain it verbatim,
    /// since the template may have escaped it, renders [`PROBE`] in its place and looks for that.
    fn shows_system(&self, chat: &Chat, prompt: GenerationPrompt, system: &str, rendered: &str) -> bool {
        // Templates may trim the prompt.
        rendered.contains(system.trim())
            || self
                .run(&chat.with_system(PROBE), prompt)
                .is_ok_and(|text| text.contains(PROBE))
    }

    /// Renders a conversation in the form that the template reads.
    fn run(&self, chat: &Chat, prompt: GenerationPrompt) -> Result<String, TemplateError> {
        // Jinja prints null as `None`, which no template intends.
        let keeps_null = !chat.has_null_content() || self.null_testing_templates.contains(self.template(chat)?.name());
        let chat = &*if keeps_null {
            Cow::Borrowed(chat)
        } else {
            Cow::Owned(chat.without_null_contents())
        };
        let messages = if self.needs_content_parts() {
            chat.messages_with_content_parts()
        } else {
            chat.messages()
        };
        self.run_with(chat, messages, prompt)
    }

    /// Whether the template reads content only as a list of `{type: "text", text}`, as templates of
    /// multimodal models may. Determined by rendering one message in both forms.
    fn needs_content_parts(&self) -> bool {
        if let Some(&needs_content_parts) = self.needs_content_parts.get() {
            return needs_content_parts;
        }
        let needs_content_parts = {
            let probe = probe_chat();
            // A template that prints the list does not read its parts.
            let reads_content = |messages: Value| {
                self.run_with(&probe, messages, GenerationPrompt::Omit)
                    .is_ok_and(|text| text.contains(PROBE) && !text.contains("'type'"))
            };
            !reads_content(probe.messages()) && reads_content(probe.messages_with_content_parts())
        };
        // The result of an interrupted rendering is not cached.
        if !interrupt::is_set() {
            let _ = self.needs_content_parts.set(needs_content_parts);
        }
        needs_content_parts
    }

    /// The template for a conversation, which may be the one for tools.
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
        if interrupt::poll() {
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
        // `rewrite` refuses sources that are known to make minijinja panic.
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

/// Tokenizes a rendered conversation, after BOS if the model requires one.
fn encode_rendered(tokenizer: &Tokenizer, text: &str, markers: Markers) -> Result<Vec<u32>, TemplateError> {
    let mut ids = tokenizer.encode_marked(text, markers);
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

/// A conversation of one user message, [`PROBE`].
fn probe_chat() -> Chat {
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
