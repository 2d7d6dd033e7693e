//! `hearth tokenize`: tokenizes a text or a conversation. Only the model's vocabulary and chat
//! template are read.

use super::print_json;
use crate::args::Tokenize;
use crate::failure::Failure;
use crate::model::ChosenModel;
use crate::say;
use crate::terminal::stdout;
use hearth_engine::notices::{missing_bytes, template_notice};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Maximum bytes of a file of messages or tools. A longer conversation exceeds every context.
const MAX_CHAT_BYTES: u64 = 64 << 20;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    /// The rendered conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    ids: Ids,
}

/// The token ids of one text, or of one text per line.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Ids {
    One(Vec<u32>),
    Lines(Vec<Vec<u32>>),
}

/// Tokenizes the text, file, lines or conversation of the command line, and prints the token ids.
pub fn run(args: &Tokenize) -> Result<(), Failure> {
    let gguf = Gguf::open(ChosenModel::find(&args.model)?.path).map_err(Failure::new)?;
    let tokenizer = Tokenizer::from_gguf(&gguf).map_err(Failure::new)?;
    if let Some(notice) = missing_bytes(&tokenizer) {
        say!("note: {notice}");
    }
    let special = if args.special { Special::Parse } else { Special::Text };
    let mut text = None;
    let ids = if let Some(path) = &args.chat {
        let template = ChatTemplate::from_gguf(&gguf).map_err(Failure::new)?;
        if let Some(notice) = template_notice(&template) {
            say!("note: {notice}");
        }
        let chat = read_chat(path, args.tools.as_deref())?;
        text = Some(
            template
                .render_chat(&chat, GenerationPrompt::Add)
                .map_err(Failure::new)?,
        );
        let ids = template.encode_chat(&tokenizer, &chat, GenerationPrompt::Add);
        Ids::One(ids.map_err(Failure::new)?)
    } else if let Some(path) = &args.lines {
        let texts = json_lines(&read_text(path)?, path)?;
        Ids::Lines(texts.iter().map(|text| tokenizer.encode(text, special)).collect())
    } else if let Some(path) = &args.file {
        Ids::One(tokenizer.encode(&read_text(path)?, special))
    } else {
        Ids::One(tokenizer.encode(args.text.as_deref().unwrap_or_default(), special))
    };
    if args.output.json {
        return print_json(&Report { text, ids });
    }
    let mut out = stdout();
    if let Some(text) = text {
        writeln!(out, "{text}\n")?;
    }
    match ids {
        Ids::One(ids) => {
            for id in ids {
                let bytes = tokenizer.token_bytes(id).unwrap_or_default();
                writeln!(out, "{id:>7}  {:?}", String::from_utf8_lossy(bytes))?;
            }
        }
        Ids::Lines(lines) => {
            for ids in lines {
                let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                writeln!(out, "{}", ids.join(" "))?;
            }
        }
    }
    Ok(())
}

/// Reads a text file.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    read_bounded(path, u64::MAX)
}

/// Reads a conversation from a file of messages and a file of tools.
fn read_chat(messages: &Path, tools: Option<&Path>) -> Result<Chat, Failure> {
    let read = |path| read_bounded(path, MAX_CHAT_BYTES);
    let messages_json = read(messages)?;
    let tools_json = tools.map(read).transpose()?;
    Chat::from_json(&messages_json, tools_json.as_deref()).map_err(|error| {
        let files = [Some(messages), tools].into_iter().flatten();
        let files: Vec<String> = files.map(|path| path.display().to_string()).collect();
        Failure::new(format!("{}: {error}", files.join(", ")))
    })
}

/// Reads a text file of at most `limit` bytes; a larger one is a failure.
fn read_bounded(path: &Path, limit: u64) -> Result<String, Failure> {
    let name = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|error| Failure::new(format!("{name} cannot be read: {error}.")))?;
    if bytes.len() as u64 > limit {
        let max = limit >> 20;
        return Err(Failure::new(format!(
            "{name} is larger than {max} MiB. Use a shorter conversation."
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{name} is not UTF-8 text. Convert it first.")))
}

/// Parses one JSON string per line. Empty lines are skipped.
fn json_lines(text: &str, path: &Path) -> Result<Vec<String>, Failure> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(index, line): (usize, &str)| {
        let failure = |error| {
            Failure::new(format!(
                "{}: line {} is not a JSON string: {error}.",
                path.display(),
                index + 1
            ))
        };
        serde_json::from_str(line).map_err(failure)
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_documented_fields() {
        let check = |text: Option<&str>, ids, expected: &str| {
            let text = text.map(str::to_owned);
            assert_eq!(serde_json::to_string(&Report { text, ids }).unwrap(), expected);
        };
        check(None, Ids::One(vec![1, 2]), r#"{"ids":[1,2]}"#);
        check(None, Ids::Lines(vec![vec![1], vec![]]), r#"{"ids":[[1],[]]}"#);
        check(Some("a"), Ids::One(vec![1]), r#"{"text":"a","ids":[1]}"#);
    }

    #[test]
    fn a_conversation_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let chat = write("chat.json", br#"[{"role": "user", "content": "x"}]"#);
        let tools = write("tools.json", b"{}");
        assert!(read_chat(&chat, None).is_ok());
        let check = |chat: &Path, tools: Option<&Path>, expected: &str| {
            let error = read_chat(chat, tools).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(
            &chat,
            Some(tools.as_path()),
            "tools.json: this is not a conversation: the tools: they are not a list",
        );
        check(&tools, None, "the messages: they are not a list");
        check(&write("bytes", b"\xff"), None, "bytes is not UTF-8 text");
        check(&folder.path().join("gone"), None, "gone cannot be read");
        let long = folder.path().join("long");
        File::create(&long).unwrap().set_len(MAX_CHAT_BYTES + 1).unwrap();
        assert!(
            read_chat(&long, None)
                .unwrap_err()
                .to_string()
                .contains("long is larger than 64 MiB")
        );
    }

    #[test]
    fn lines_are_json_strings_and_an_invalid_one_is_named() {
        let path = Path::new("texts");
        assert_eq!(json_lines("\"a\\nb\"\n\n\"\"\n", path).unwrap(), ["a\nb", ""]);
        assert!(
            json_lines("\"a\"\nb\n", path)
                .unwrap_err()
                .to_string()
                .starts_with("texts: line 2 ")
        );
    }
}
