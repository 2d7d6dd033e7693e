//! `hearth tokenize`: the tokens of a text, from the vocabulary alone.

use super::print_json;
use crate::args::Tokenize;
use crate::failure::Failure;
use crate::model::Chosen;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// What scripts read.
#[derive(Debug, Serialize)]
struct Report {
    ids: Ids,
}

/// Of one text, or of one text a line.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Ids {
    One(Vec<u32>),
    Lines(Vec<Vec<u32>>),
}

/// Tokenises the text, the file or its lines.
pub fn run(args: &Tokenize) -> Result<(), Failure> {
    let gguf = Gguf::open(Chosen::find(&args.model)?.path).map_err(Failure::new)?;
    let tokenizer = Tokenizer::from_gguf(&gguf).map_err(Failure::new)?;
    let special = if args.special { Special::Parse } else { Special::Text };
    let ids = if let Some(path) = &args.lines {
        let texts = json_lines(&read_text(path)?, path)?;
        Ids::Lines(texts.iter().map(|text| tokenizer.encode(text, special)).collect())
    } else if let Some(path) = &args.file {
        Ids::One(tokenizer.encode(&read_text(path)?, special))
    } else {
        Ids::One(tokenizer.encode(args.text.as_deref().unwrap_or_default(), special))
    };
    if args.output.json {
        return print_json(&Report { ids });
    }
    let mut out = std::io::stdout().lock();
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

/// A file's text.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let bytes = std::fs::read(path).map_err(|error| Failure::new(format!("{name} cannot be read: {error}.")))?;
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{name} is not a text in UTF-8. Convert it first.")))
}

/// The JSON strings of a text, one a line; empty lines are passed over.
fn json_lines(text: &str, path: &Path) -> Result<Vec<String>, Failure> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        let fails = |error| {
            Failure::new(format!(
                "{}: line {} is not a JSON string: {error}.",
                path.display(),
                number + 1
            ))
        };
        serde_json::from_str(line).map_err(fails)
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_fields_that_scripts_read() {
        let check = |ids, expected: &str| assert_eq!(serde_json::to_string(&Report { ids }).unwrap(), expected);
        check(Ids::One(vec![1, 2]), r#"{"ids":[1,2]}"#);
        check(Ids::Lines(vec![vec![1], vec![]]), r#"{"ids":[[1],[]]}"#);
    }

    #[test]
    fn lines_are_json_strings_and_a_bad_one_is_named() {
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
