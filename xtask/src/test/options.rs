//! Options of `cargo xtask test`.

use crate::process::Outcome;
use crate::suites::{Mode, PARTS};

/// The requested run.
#[derive(Debug, PartialEq, Eq)]
pub enum Options {
    /// The run that decides whether a commit is accepted.
    Run(Mode),
    /// The tests most likely to fail after the changes since a commit, for use while writing code.
    Changed(String),
}

impl Options {
    /// Parses the words after `cargo xtask test`.
    ///
    /// # Errors
    /// Names an invalid word.
    pub fn parse(words: &[String]) -> Outcome<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Ok(Self::Run(Mode::Due)),
            ["--complete"] => Ok(Self::Run(Mode::Complete)),
            ["--part", text] => {
                let number = text
                    .strip_suffix(&format!("/{PARTS}"))
                    .and_then(|number| number.parse().ok());
                let part = number.filter(|number| (1..=PARTS).contains(number));
                let wrong = || format!("`--part {text}`: there are parts 1/{PARTS} to {PARTS}/{PARTS}.");
                Ok(Self::Run(Mode::Part(part.ok_or_else(wrong)?)))
            }
            ["--changed"] => Ok(Self::Changed("HEAD".to_owned())),
            ["--changed", base] if !base.starts_with('-') => Ok(Self::Changed((*base).to_owned())),
            _ => Err(format!(
                "`cargo xtask test {}` is not understood. It takes nothing, --complete, --part K/{PARTS}, or --changed [BASE].",
                words.join(" ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Outcome<Options> {
        Options::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_parsed_or_refused() {
        assert_eq!(parse(&[]), Ok(Options::Run(Mode::Due)));
        assert_eq!(parse(&["--complete"]), Ok(Options::Run(Mode::Complete)));
        assert_eq!(parse(&["--part", "2/4"]), Ok(Options::Run(Mode::Part(2))));
        assert_eq!(parse(&["--changed"]), Ok(Options::Changed("HEAD".to_owned())));
        assert_eq!(
            parse(&["--changed", "HEAD~3"]),
            Ok(Options::Changed("HEAD~3".to_owned()))
        );
        for wrong in [
            &["--part"][..],
            &["--part", "5/4"],
            &["--part", "0/4"],
            &["--part", "1/3"],
            &["--changed", "--complete"],
            &["complete"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
