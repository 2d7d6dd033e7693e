//! Splits a stream of JSON into its elements: the items of a top-level list, or the top-level
//! values of JSON Lines. One element is in memory at a time.

use super::hearth;
use std::io::{self, BufRead, Cursor};

/// Most bytes of one element. Its values, texts and rows take several times as much, in the process
/// of the window.
pub(super) const MAX_ELEMENT: usize = 32 << 20;

/// Most bytes of a conversation of Hearth, which its export has as one element. Its texts are in
/// memory a few times.
const MAX_HEARTH_ELEMENT: usize = 256 << 20;

/// One element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Number of the top-level value that it is, or is an item of.
    pub group: usize,
    /// Whether it is an item of a list: a top-level list, or the list of a split object.
    pub in_list: bool,
    /// Whether it is an item of the list of an object that has more than [`MAX_ELEMENT`] bytes.
    pub in_object: bool,
    pub content: Content,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The text of the value.
    Bytes(Vec<u8>),
    /// It has more bytes than this.
    TooLarge(usize),
    /// The stream ended inside it, or it does not begin like a value.
    Broken,
}

/// The elements of a stream.
pub(super) struct Elements<R> {
    stream: R,
    /// Bytes before the rest of the stream: the list of a split object.
    ahead: Cursor<Vec<u8>>,
    group: usize,
    in_list: bool,
    in_object: bool,
    ended: bool,
    limit: usize,
}

impl<R: BufRead> Elements<R> {
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            ahead: Cursor::default(),
            group: 0,
            in_list: false,
            in_object: false,
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
                // The last three bytes are a byte order mark.
                b' ' | b'\t' | b'\n' | b'\r' | b',' | 0xef | 0xbb | 0xbf => self.consume(1)?,
                b'[' if !self.in_list => {
                    self.consume(1)?;
                    self.in_list = true;
                    self.group += 1;
                }
                b']' if self.in_list => {
                    self.consume(1)?;
                    if self.in_object && !self.end_object()? {
                        return Ok(Some(self.broken()));
                    }
                    (self.in_list, self.in_object) = (false, false);
                }
                b'{' | b'[' => {
                    self.group += usize::from(!self.in_list);
                    if let Some(content) = self.nested()? {
                        return Ok(Some(self.element(content)));
                    }
                }
                _ if self.in_list => {
                    if let Some(content) = self.scalar()? {
                        return Ok(Some(self.element(content)));
                    }
                }
                _ => return Ok(Some(self.broken())),
            }
        }
        if self.in_list && !self.ended {
            // The list has no end.
            Ok(Some(self.broken()))
        } else {
            Ok(None)
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
            in_object: self.in_object,
            content,
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.fill()?.first().copied())
    }

    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.ahead.fill_buf()?.is_empty() {
            self.stream.fill_buf()
        } else {
            self.ahead.fill_buf()
        }
    }

    fn consume(&mut self, count: usize) -> io::Result<()> {
        if self.ahead.fill_buf()?.is_empty() {
            self.stream.consume(count)
        } else {
            self.ahead.consume(count)
        }
        Ok(())
    }

    /// Reads an object or a list to its closing bracket.
    fn nested(&mut self) -> io::Result<Option<Content>> {
        let is_object = self.peek()? == Some(b'{');
        let scan = Nesting {
            splits: is_object && !self.in_list,
            ..Nesting::default()
        };
        self.take_while(scan, true)
    }

    /// Reads a number, a word or a text up to the next delimiter.
    fn scalar(&mut self) -> io::Result<Option<Content>> {
        if self.peek()? == Some(b'"') {
            let (mut first, mut escaped) = (true, false);
            let continues = move |byte| {
                let ends = !first && !escaped && byte == b'"';
                escaped = !escaped && byte == b'\\';
                first = false;
                !ends
            };
            return self.take_while(continues, true);
        }
        self.take_while(|byte| !matches!(byte, b',' | b']' | b'\n' | b' '), false)
    }

    /// Takes bytes while the scan continues, and with `inclusive` also the byte at which it stops.
    /// `None` means that the element is an object that is split: the items of its list come next.
    fn take_while(&mut self, mut scan: impl Scan, inclusive: bool) -> io::Result<Option<Content>> {
        let (mut bytes, mut exceeded) = (Vec::new(), None);
        loop {
            let buffer = self.fill()?;
            if buffer.is_empty() {
                self.ended = true;
                return Ok(Some(Content::Broken));
            }
            let stop = buffer.iter().position(|byte| !scan.continues(*byte));
            let count = stop.map_or(buffer.len(), |offset| offset + usize::from(inclusive));
            if exceeded.is_none() {
                bytes.extend_from_slice(&buffer[..count]);
            }
            self.consume(count)?;
            let limit = if bytes.starts_with(hearth::BEGIN) {
                MAX_HEARTH_ELEMENT
            } else {
                self.limit
            };
            if bytes.len() > limit {
                if let Some(list) = scan.list() {
                    self.ahead = Cursor::new(bytes.split_off(list));
                    (self.in_list, self.in_object) = (true, true);
                    return Ok(None);
                }
                (bytes, exceeded) = (Vec::new(), Some(limit));
            }
            if stop.is_some() {
                return Ok(Some(exceeded.map_or(Content::Bytes(bytes), Content::TooLarge)));
            }
        }
    }

    /// Reads the rest of an object after its list. Returns `false` if the object has no end.
    fn end_object(&mut self) -> io::Result<bool> {
        let mut rest = Nesting {
            depth: 1,
            ..Nesting::default()
        };
        loop {
            let buffer = self.fill()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let stop = buffer.iter().position(|byte| !rest.continues(*byte));
            let count = stop.map_or(buffer.len(), |offset| offset + 1);
            self.consume(count)?;
            if stop.is_some() {
                return Ok(true);
            }
        }
    }
}

/// Finds the end of an element.
trait Scan {
    /// Returns `false` at the byte that ends it.
    fn continues(&mut self, byte: u8) -> bool;

    /// The offset of the items of the list that is more than half of the element, if the element is
    /// split there.
    fn list(&self) -> Option<usize> {
        None
    }
}

impl<F: FnMut(u8) -> bool> Scan for F {
    fn continues(&mut self, byte: u8) -> bool {
        self(byte)
    }
}

/// Nesting depth, and whether the position is inside a string.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether it is an object that may be split.
    splits: bool,
    /// Number of bytes so far.
    at: usize,
    /// Offset of the items of the object's last list, while it is open.
    last: Option<usize>,
    /// Offset and length of the longest closed list.
    longest: Option<(usize, usize)>,
}

impl Nesting {
    /// The longest list of the object, with its length.
    fn longest(&self) -> Option<(usize, usize)> {
        let last = self.last.map(|begin| (begin, self.at - begin));
        [self.longest, last]
            .into_iter()
            .flatten()
            .max_by_key(|(_, length)| *length)
    }
}

impl Scan for Nesting {
    fn continues(&mut self, byte: u8) -> bool {
        self.at += 1;
        if self.in_text {
            self.in_text = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return true;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => {
                self.depth += 1;
                if byte == b'[' && self.depth == 2 {
                    self.last = Some(self.at);
                }
            }
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 1 {
                    self.longest = self.longest();
                    self.last = None;
                }
            }
            _ => {}
        }
        self.depth > 0
    }

    fn list(&self) -> Option<usize> {
        let (begin, length) = self.longest().filter(|_| self.splits)?;
        (length > self.at / 2).then_some(begin)
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
        let mut actual = Vec::new();
        while let Some(element) = elements.next().unwrap() {
            let content = match element.content {
                Content::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
                other => format!("{other:?}"),
            };
            actual.push((element.group, element.in_list, content));
        }
        actual
    }

    #[test]
    fn lists_and_lines_are_split() {
        let case = |text: &str, expected: &[(usize, bool, &str)]| {
            let actual = elements(text, 40);
            let actual: Vec<_> = actual
                .iter()
                .map(|(group, list, text)| (*group, *list, text.as_str()))
                .collect();
            assert_eq!(actual, expected, "{text}");
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
        // A large object is split at the list that makes up most of it.
        let many = format!(r#"{{"a":[1],"b":[{{}},[2]{}],"c":[{{}}]}}{{"d":1}}"#, ",3".repeat(30));
        let mut items = vec![(1, true, "{}"), (1, true, "[2]")];
        items.extend([(1, true, "3")].repeat(30));
        items.push((2, false, r#"{"d":1}"#));
        case(&many, &items);
        case(&many[..60], &[&items[..21], &[(1, true, "Broken")]].concat());
        let text = format!(r#"{{"a":[1],"b":"{}"}}{{}}"#, "x".repeat(50));
        case(&text, &[(1, false, "TooLarge(40)"), (2, false, "{}")]);
        // A conversation of Hearth may be larger.
        let hearth_list = format!(r#"[{}"{}"}}]"#, str::from_utf8(hearth::BEGIN).unwrap(), "x".repeat(50));
        let item = &hearth_list[1..hearth_list.len() - 1];
        case(&hearth_list, &[(1, true, item)]);
        let long = format!("[{{\"a\":\"{}\"}},{{}}]", "x".repeat(50));
        case(&long, &[(1, true, "TooLarge(40)"), (1, true, "{}")]);
    }
}
