//! `hearth chat`: a chat in the terminal.

use super::run::sampling;
use crate::args::Chat;
use crate::display::AnswerDisplay;
use crate::draft_report;
use crate::failure::Failure;
use crate::json_schema::schema;
use crate::model::{ChosenModel, draft, load, set_adapters};
use crate::say;
use crate::terminal::{Output, stdout};
use hearth_engine::Engine;
use hearth_protocol::{
    AdapterChoice, DraftChoice, DroppedTurns, Event, FinishReason, GenerateRequest, Message, Prompt, Role,
    SamplingParams, Summary,
};
use rustyline::error::ReadlineError;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Exit code after Ctrl-C: 128 plus the signal's number, as in shells.
const INTERRUPTED: i32 = 130;

/// Answer to `/help`.
const HELP: &str = "\
/system TEXT   set the system prompt; without TEXT, restore the default
/clear         start a new conversation
/stats         show the speed of the last answer and the use of the context
/help          show this help
/exit          quit (or Ctrl-D)
Ctrl-C stops an answer; press it again to quit.";

/// Runs the chat until the input ends.
pub fn run(args: &Chat) -> Result<(), Failure> {
    let model = ChosenModel::find(&args.load.model)?;
    let mut engine = load(
        &model,
        &args.load.options,
        args.context.ctx,
        draft(&args.draft, DraftChoice::Auto)?,
    )?;
    set_adapters(&mut engine, &args.adapters)?;
    let interrupts = Interrupts::install()?;
    let system = args.system.clone().or_else(|| model.system_prompt.clone());
    let mut session = ChatSession {
        name: model.name,
        engine,
        sampling: sampling(&args.sampling, &model.sampling),
        schema: schema(&args.schema)?,
        adapters: args.adapters.adapters.clone(),
        default_system: system.clone(),
        system,
        messages: Vec::new(),
        last_answer: None,
        interrupts,
    };
    if io::stdin().is_terminal() {
        session.run_in_terminal()
    } else {
        session.run_with_piped_input()
    }
}

/// A parsed input line.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Empty,
    Message(&'a str),
    System(Option<&'a str>),
    Clear,
    Stats,
    Help,
    Exit,
    Unknown(&'a str),
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let line = line.trim();
        if line.is_empty() {
            return Self::Empty;
        }
        if !line.starts_with('/') {
            return Self::Message(line);
        }
        let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
        match (command, argument) {
            ("/system", text) => Self::System(text),
            ("/clear", None) => Self::Clear,
            ("/stats", None) => Self::Stats,
            ("/help", None) => Self::Help,
            ("/exit" | "/quit", None) => Self::Exit,
            _ => Self::Unknown(command),
        }
    }
}

/// A conversation with its model and settings.
struct ChatSession {
    /// Display name of the model.
    name: String,
    engine: Engine,
    sampling: SamplingParams,
    /// A JSON schema that answers follow.
    schema: Option<String>,
    adapters: Vec<AdapterChoice>,
    /// The system prompt that `/system` without a text restores.
    default_system: Option<String>,
    /// The current system prompt.
    system: Option<String>,
    messages: Vec<Message>,
    last_answer: Option<AnswerStats>,
    interrupts: Interrupts,
}

/// Statistics of an answer.
struct AnswerStats {
    summary: Summary,
    /// Prompt tokens that were in the KV cache.
    cached_prompt_tokens: u32,
}

impl ChatSession {
    /// Executes lines from a line editor. Prints failures and continues.
    fn run_in_terminal(&mut self) -> Result<(), Failure> {
        let info = self.engine.info();
        writeln!(
            stdout(),
            "{} ({}), {} tokens of context. /help shows the commands.",
            self.name,
            info.quantization,
            info.context
        )?;
        let mut editor = rustyline::DefaultEditor::new().map_err(Failure::new)?;
        loop {
            let line = match editor.readline("\n> ") {
                Ok(line) => line,
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
                Err(error) => return Err(Failure::new(format!("The terminal cannot be read: {error}."))),
            };
            // Errors of the line history are ignored.
            let _ = editor.add_history_entry(line.trim());
            match self.execute(&line) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Failure::Closed) => return Err(Failure::Closed),
                Err(failure) => say!("{failure}"),
            }
        }
    }

    /// Executes lines from standard input until one fails.
    fn run_with_piped_input(&mut self) -> Result<(), Failure> {
        for line in io::stdin().lock().lines() {
            if !self.execute(&line?)? {
                break;
            }
        }
        Ok(())
    }

    /// Executes a line. Returns `false` to quit.
    fn execute(&mut self, line: &str) -> Result<bool, Failure> {
        let mut out = stdout();
        match Line::parse(line) {
            Line::Empty => {}
            Line::Message(text) => self.send(text, &mut out)?,
            Line::System(text) => {
                self.system = text.map(str::to_owned).or_else(|| self.default_system.clone());
                writeln!(
                    out,
                    "System prompt: {}",
                    self.system.as_deref().unwrap_or("(the model's default)")
                )?;
            }
            Line::Clear => {
                self.messages.clear();
                self.last_answer = None;
                writeln!(out, "New conversation.")?;
            }
            Line::Stats => writeln!(out, "{}", self.stats())?,
            Line::Help => writeln!(out, "{HELP}")?,
            Line::Exit => return Ok(false),
            Line::Unknown(command) => writeln!(out, "Unknown command {command}. /help lists the commands.")?,
        }
        Ok(true)
    }

    /// Sends a message and streams the answer. If that fails, the message is removed.
    fn send(&mut self, text: &str, out: &mut Output<impl Write>) -> Result<(), Failure> {
        self.messages.push(Message::of_text(Role::User, text));
        let system = self.system.iter().filter(|text| !text.is_empty());
        let system = system.map(|text| Message::of_text(Role::System, text));
        let request = GenerateRequest {
            sampling: self.sampling.clone(),
            adapters: self.adapters.clone(),
            json_schema: self.schema.clone(),
            ..GenerateRequest::new(Prompt::Chat(system.chain(self.messages.iter().cloned()).collect()))
        };
        let (mut display, mut cached_prompt_tokens) = (AnswerDisplay::new(out), 0);
        let answer = self.interrupts.start_answer();
        let summary = self.engine.generate(
            &request,
            Instant::now(),
            &|| answer.is_stopped(),
            &mut |event| match event {
                Event::Started {
                    cached_tokens, dropped, ..
                } => {
                    cached_prompt_tokens = cached_tokens;
                    if let Some(dropped) = dropped {
                        display.notice(&dropped_notice(dropped));
                    }
                }
                event => display.apply(&event),
            },
        );
        drop(answer);
        display.end()?;
        let parts = display.parts;
        match summary {
            Ok(summary) => {
                match summary.finish_reason {
                    // No request here limits repetition.
                    FinishReason::Stop | FinishReason::Length | FinishReason::Repetition => writeln!(out)?,
                    FinishReason::Cancelled => writeln!(out, " [stopped]")?,
                    FinishReason::ContextFull => {
                        writeln!(out, " [the context is full; /clear starts a new conversation]")?
                    }
                }
                self.messages.push(Message {
                    role: Role::Assistant,
                    parts,
                });
                self.last_answer = Some(AnswerStats {
                    summary,
                    cached_prompt_tokens,
                });
                Ok(())
            }
            Err(problem) => {
                self.messages.pop();
                Err(problem.into())
            }
        }
    }

    /// Speed and context use of the last answer.
    fn stats(&self) -> String {
        let Some(AnswerStats {
            summary,
            cached_prompt_tokens,
        }) = &self.last_answer
        else {
            return "No answer yet.".to_owned();
        };
        let line = format!(
            "prefill {} tokens ({cached_prompt_tokens} cached) at {:.0} tokens/s, decode {} at {:.1} tokens/s, first \
             token after {:.2} s; {} of {} tokens of context in use",
            summary.prompt_tokens,
            summary.prompt_tokens_per_second,
            summary.tokens,
            summary.tokens_per_second,
            summary.first_token_seconds,
            summary.context_used,
            summary.context,
        );
        let draft = summary.draft.and_then(draft_report::sentence);
        match draft {
            Some(draft) => format!("{line}; {draft}"),
            None => line,
        }
    }
}

/// The notice that the oldest messages no longer fit the context.
fn dropped_notice(dropped: DroppedTurns) -> String {
    let DroppedTurns { messages, tokens } = dropped;
    format!("[the {messages} oldest messages ({tokens} tokens) no longer fit the context and were dropped]\n")
}

/// State of the Ctrl-C handler. During an answer the first Ctrl-C stops the answer; any other
/// Ctrl-C exits.
struct Interrupts {
    /// Whether an answer is in progress.
    is_answering: Arc<AtomicBool>,
    /// Whether the answer has to stop.
    is_stopped: Arc<AtomicBool>,
}

impl Interrupts {
    /// Installs the handler.
    fn install() -> Result<Self, Failure> {
        let interrupts = Self {
            is_answering: Arc::default(),
            is_stopped: Arc::default(),
        };
        let (is_answering, is_stopped) = (Arc::clone(&interrupts.is_answering), Arc::clone(&interrupts.is_stopped));
        let handler = move || {
            if !is_answering.load(Ordering::Relaxed) || is_stopped.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        };
        ctrlc::set_handler(handler)
            .map_err(|error| Failure::new(format!("The Ctrl-C handler could not be installed: {error}.")))?;
        Ok(interrupts)
    }

    /// Ctrl-C stops the answer until the returned guard is dropped.
    fn start_answer(&self) -> AnswerGuard {
        self.is_stopped.store(false, Ordering::Relaxed);
        self.is_answering.store(true, Ordering::Relaxed);
        AnswerGuard {
            is_answering: Arc::clone(&self.is_answering),
            is_stopped: Arc::clone(&self.is_stopped),
        }
    }
}

/// Guard of an answer in progress.
struct AnswerGuard {
    is_answering: Arc<AtomicBool>,
    is_stopped: Arc<AtomicBool>,
}

impl AnswerGuard {
    /// Whether Ctrl-C stopped the answer.
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.is_answering.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let check = |line, expected: Line| assert_eq!(Line::parse(line), expected);
        check("  ", Line::Empty);
        check(" hello there ", Line::Message("hello there"));
        check("/system be kind ", Line::System(Some("be kind")));
        check("/system", Line::System(None));
        check("/clear", Line::Clear);
        check("/stats", Line::Stats);
        check("/help ", Line::Help);
        check("/quit", Line::Exit);
        check("/clear it all", Line::Unknown("/clear"));
        check("/nonsense", Line::Unknown("/nonsense"));
    }
}
