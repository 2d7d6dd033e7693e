//! Splits a stream of JSON into its elements: the items of a top-level list, or the top-level
//! values of JSON Lines. One element is in memory at a time.

use std::io::{self, BufRead};

/// Most bytes of one element. Its values, texts and rows take several times as much, in the process
/// of the window.
pub(super) const MAX_ELEMENT: usize = 32 << 20;

/// One element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Number of the top-level value that it is, or is an item of.
    pub group: usize,
    /// Whether it is an item of a top-level list.
    pub in_list: bool,
    pub content: Content,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The text of the value.
    Bytes(Vec<u8>),
    /// It has more than [`MAX_ELEMENT`] bytes.
    TooLarge,
    /// The stream ended inside it, or it does not begin like a value.
    Broken,
}

/// The elements of a stream.
pub(super) struct Elements<R> {
    stream: R,
    group: usize,
    in_list: bool,
    ended: bool,
    limit: usize,
}

impl<R: BufRead> Elements<R> {
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            group: 0,
            in_list: false,
            ended: false,
            limit: MAX_ELEMENT,
        }
    }

    /// The next element.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn next(&mut self) -> io::Result<Option<Element>> {
        while !self.ended {
            let Some(byte) = self.peek()? else { break };
            match byte {
                // Also a byte order mark.
                b' ' | b'\t' | b'\n' | b'\r' | b',' | 0xef | 0xbb | 0xbf => self.stream.consume(1),
                b'[' if !self.in_list => {
                    self.stream.consume(1);
                    self.in_list = true;
                    self.group += 1;
                }
                b']' if self.in_list => {
                    self.stream.consume(1);
                    self.in_list = false;
                }
                b'{' | b'[' => {
                    self.group += usize::from(!self.in_list);
                    let content = self.nested()?;
                    return Ok(Some(self.element(content)));
                }
                _ if self.in_list => {
                    let content = self.scalar()?;
                    return Ok(Some(self.element(content)));
                }
                _ => return Ok(Some(self.broken())),
            }
        }
        match self.in_list && !self.ended {
            // The list has no end.
            true => Ok(Some(self.broken())),
            false => Ok(None),
        }
    }

    fn broken(&mut self) -> Element {
        self.ended = true;
        self.element(Content::Broken)
    }

    fn element(&self, content: Content) -> Element {
        Element {
            group: self.group,
            in_list: self.in_list,
            content,
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.stream.fill_buf()?.first().copied())
    }

    /// Reads an object or a list to its closing bracket.
    fn nested(&mut self) -> io::Result<Content> {
        let mut scan = Nesting::default();
        self.take_while(move |byte| scan.goes_on(byte), true)
    }

    /// Reads a number, a word or a text up to the next delimiter.
    fn scalar(&mut self) -> io::Result<Content> {
        if self.peek()? == Some(b'"') {
            let (mut first, mut escaped) = (true, false);
            let goes_on = move |byte| {
                let ends = !first && !escaped && byte == b'"';
                escaped = !escaped && byte == b'\\';
                first = false;
                !ends
            };
            return self.take_while(goes_on, true);
        }
        self.take_while(|byte| !matches!(byte, b',' | b']' | b'\n' | b' '), false)
    }

    /// Takes bytes while `goes_on`; `inclusive`: with the byte at which it stops.
    fn take_while(&mut self, mut goes_on: impl FnMut(u8) -> bool, inclusive: bool) -> io::Result<Content> {
        let (mut bytes, mut too_large) = (Vec::new(), false);
        loop {
            let buffer = self.stream.fill_buf()?;
            if buffer.is_empty() {
                self.ended = true;
                return Ok(Content::Broken);
            }
            let stop = buffer.iter().position(|byte| !goes_on(*byte));
            let taken = stop.map_or(buffer.len(), |at| at + usize::from(inclusive));
            too_large |= bytes.len() + taken > self.limit;
            match too_large {
                true => bytes = Vec::new(),
                false => bytes.extend_from_slice(&buffer[..taken]),
            }
            self.stream.consume(taken);
            if stop.is_some() {
                return Ok(match too_large {
                    true => Content::TooLarge,
                    false => Content::Bytes(bytes),
                });
            }
        }
    }
}

/// Open brackets, and whether a text is open.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// Returns `false` at the bracket that closes the first one.
    fn goes_on(&mut self, byte: u8) -> bool {
        if self.in_text {
            self.in_text = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return true;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn elements(text: &str, limit: usize) -> Vec<(usize, bool, String)> {
        // A buffer of a few bytes, so that elements span several.
        let mut elements = Elements::new(BufReader::with_capacity(3, text.as_bytes()));
        elements.limit = limit;
        let mut found = Vec::new();
        while let Some(element) = elements.next().unwrap() {
            let content = match element.content {
                Content::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
                other => format!("{other:?}"),
            };
            found.push((element.group, element.in_list, content));
        }
        found
    }

    #[test]
    fn lists_and_lines_are_split() {
        let case = |text: &str, expected: &[(usize, bool, &str)]| {
            let found = elements(text, 40);
            let found: Vec<_> = found
                .iter()
                .map(|(group, list, text)| (*group, *list, text.as_str()))
                .collect();
            assert_eq!(found, expected, "{text}");
        };
        case("", &[]);
        case("\u{feff}[ ]", &[]);
        case(
            r#"[{"a":"]}"}, [1,"\"]"],2 ,"x\"y"]"#,
            &[
                (1, true, r#"{"a":"]}"}"#),
                (1, true, r#"[1,"\"]"]"#),
                (1, true, "2"),
                (1, true, r#""x\"y""#),
            ],
        );
        case(
            "{\"a\":1}\n{\"b\":{}}\n[3]",
            &[(1, false, "{\"a\":1}"), (2, false, "{\"b\":{}}"), (3, true, "3")],
        );
        case("{\"a\":", &[(1, false, "Broken")]);
        case("[{}", &[(1, true, "{}"), (1, true, "Broken")]);
        case("hello world", &[(0, false, "Broken")]);
        let long = format!("[{{\"a\":\"{}\"}},{{}}]", "x".repeat(50));
        case(&long, &[(1, true, "TooLarge"), (1, true, "{}")]);
    }
}
