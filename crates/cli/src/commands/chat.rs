//! `hearth chat`: runs a chat in the terminal.

use super::run::sampling;
use crate::args::Chat;
use crate::draft_report;
use crate::failure::Failure;
use crate::json_schema::schema;
use crate::model::{Chosen, draft, load, set_adapters};
use crate::say;
use crate::shown::Shown;
use crate::terminal::{Output, stdout};
use hearth_engine::Engine;
use hearth_protocol::{
    AdapterChoice, DraftChoice, Event, FinishReason, GenerateRequest, LeftOut, Message, Prompt, Role, SamplingParams,
    Summary,
};
use rustyline::error::ReadlineError;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Exit code after Ctrl-C: 128 plus the signal's number, as in shells.
const INTERRUPTED: i32 = 130;

const HELP: &str = "\
/system TEXT   set the system prompt; without TEXT, restore the default
/clear         start a new conversation
/stats         show the speed of the last answer and the use of the context
/help          show this help
/exit          quit (or Ctrl-D)
Ctrl-C stops an answer; press it again to quit.";

/// Runs the chat until the input ends.
pub fn run(args: &Chat) -> Result<(), Failure> {
    let chosen = Chosen::find(&args.load.model)?;
    let mut engine = load(
        &chosen,
        &args.load.options,
        args.context.ctx,
        draft(&args.draft, DraftChoice::Auto)?,
    )?;
    set_adapters(&mut engine, &args.adapters)?;
    let stop = Stop::install()?;
    let system = args.system.clone().or_else(|| chosen.system_prompt.clone());
    let mut talk = Talk {
        name: chosen.name,
        engine,
        sampling: sampling(&args.sampling, &chosen.sampling),
        schema: schema(&args.schema)?,
        adapters: args.adapters.adapters.clone(),
        own_system: system.clone(),
        system,
        messages: Vec::new(),
        last: None,
        stop,
    };
    if io::stdin().is_terminal() {
        talk.in_terminal()
    } else {
        talk.piped()
    }
}

/// A parsed input line.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Nothing,
    Message(&'a str),
    System(Option<&'a str>),
    Clear,
    Stats,
    Help,
    Exit,
    Unknown(&'a str),
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Self {
        let line = line.trim();
        if line.is_empty() {
            return Self::Nothing;
        }
        if !line.starts_with('/') {
            return Self::Message(line);
        }
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
        match (command, rest) {
            ("/system", text) => Self::System(text),
            ("/clear", None) => Self::Clear,
            ("/stats", None) => Self::Stats,
            ("/help", None) => Self::Help,
            ("/exit" | "/quit", None) => Self::Exit,
            _ => Self::Unknown(command),
        }
    }
}

/// A conversation with its engine and settings.
struct Talk {
    name: String,
    engine: Engine,
    sampling: SamplingParams,
    /// A JSON schema that answers follow.
    schema: Option<String>,
    adapters: Vec<AdapterChoice>,
    /// The initial system prompt.
    own_system: Option<String>,
    system: Option<String>,
    messages: Vec<Message>,
    last: Option<(Summary, u32)>,
    stop: Stop,
}

impl Talk {
    fn in_terminal(&mut self) -> Result<(), Failure> {
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
            match self.answer_line(&line) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Failure::Closed) => return Err(Failure::Closed),
                Err(failure) => say!("{failure}"),
            }
        }
    }

    fn piped(&mut self) -> Result<(), Failure> {
        for line in io::stdin().lock().lines() {
            if !self.answer_line(&line?)? {
                break;
            }
        }
        Ok(())
    }

    /// Executes a line. Returns `false` to quit.
    fn answer_line(&mut self, line: &str) -> Result<bool, Failure> {
        let mut out = stdout();
        match Line::read(line) {
            Line::Nothing => {}
            Line::Message(text) => self.send(text, &mut out)?,
            Line::System(text) => {
                self.system = text.map(str::to_owned).or_else(|| self.own_system.clone());
                writeln!(
                    out,
                    "System prompt: {}",
                    self.system.as_deref().unwrap_or("(the model's default)")
                )?;
            }
            Line::Clear => {
                self.messages.clear();
                self.last = None;
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
        let (mut shown, mut cached) = (Shown::new(out), 0);
        let stop = self.stop.answering();
        let summary = self.engine.generate(
            &request,
            Instant::now(),
            &|| stop.requested(),
            &mut |event| match event {
                Event::Started {
                    cached_tokens,
                    left_out,
                    ..
                } => {
                    cached = cached_tokens;
                    if let Some(left) = left_out {
                        shown.notice(&notice(left));
                    }
                }
                event => shown.follow(&event),
            },
        );
        drop(stop);
        shown.end()?;
        let parts = shown.parts;
        match summary {
            Ok(summary) => {
                match summary.reason {
                    FinishReason::Stop | FinishReason::Length => writeln!(out)?,
                    FinishReason::Cancelled => writeln!(out, " [stopped]")?,
                    FinishReason::ContextFull => {
                        writeln!(out, " [the context is full; /clear starts a new conversation]")?
                    }
                }
                self.messages.push(Message {
                    role: Role::Assistant,
                    parts,
                });
                self.last = Some((summary, cached));
                Ok(())
            }
            Err(problem) => {
                self.messages.pop();
                Err(problem.into())
            }
        }
    }

    fn stats(&self) -> String {
        let Some((summary, cached)) = &self.last else {
            return "No answer yet.".to_owned();
        };
        let line = format!(
            "prefill {} tokens ({cached} cached) at {:.0} tokens/s, decode {} at {:.1} tokens/s, first token after \
             {:.2} s; {} of {} tokens of context in use",
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

/// Notice that the beginning of the conversation no longer fits.
fn notice(left: LeftOut) -> String {
    let LeftOut { messages, tokens } = left;
    format!("[the {messages} oldest messages ({tokens} tokens) no longer fit the context and were dropped]\n")
}

/// Ctrl-C handler: the first one stops an answer, the next one exits.
struct Stop {
    answering: Arc<AtomicBool>,
    requested: Arc<AtomicBool>,
}

impl Stop {
    fn install() -> Result<Self, Failure> {
        let stop = Self {
            answering: Arc::default(),
            requested: Arc::default(),
        };
        let (answering, requested) = (Arc::clone(&stop.answering), Arc::clone(&stop.requested));
        let handler = move || {
            if !answering.load(Ordering::Relaxed) || requested.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        };
        ctrlc::set_handler(handler)
            .map_err(|error| Failure::new(format!("The Ctrl-C handler could not be installed: {error}.")))?;
        Ok(stop)
    }

    /// Until the returned guard is dropped, Ctrl-C stops the answer.
    fn answering(&self) -> Answering {
        self.requested.store(false, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
        Answering {
            answering: Arc::clone(&self.answering),
            requested: Arc::clone(&self.requested),
        }
    }
}

/// Guard of an answer in progress.
struct Answering {
    answering: Arc<AtomicBool>,
    requested: Arc<AtomicBool>,
}

impl Answering {
    fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.answering.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let check = |line, expected: Line| assert_eq!(Line::read(line), expected);
        check("  ", Line::Nothing);
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
