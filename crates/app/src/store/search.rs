//! Full-text search over messages and titles.

use rusqlite::{Connection, params};

// The index stores no text (external content). A message is indexed once finished: a growing answer
// would be indexed at every save.
pub(super) const MIGRATION: &str = "
CREATE VIRTUAL TABLE message_fts USING fts5 (
    content,
    content = 'message',
    content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER message_fts_insert AFTER INSERT ON message WHEN new.state <> 'unfinished' BEGIN
    INSERT INTO message_fts (rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER message_fts_delete AFTER DELETE ON message WHEN old.state <> 'unfinished' BEGIN
    INSERT INTO message_fts (message_fts, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER message_fts_update_old AFTER UPDATE OF content, state ON message WHEN old.state <> 'unfinished' BEGIN
    INSERT INTO message_fts (message_fts, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER message_fts_update_new AFTER UPDATE OF content, state ON message WHEN new.state <> 'unfinished' BEGIN
    INSERT INTO message_fts (rowid, content) VALUES (new.id, new.content);
END;
";

/// Most hits of a search.
const MOST_HITS: usize = 50;

/// Words of a snippet.
const SNIPPET_WORDS: i64 = 16;

/// Characters on either side of a hit, in snippets not made by SQLite.
const SNIPPET_MARGIN: usize = 40;

/// Marks around a hit in SQLite's snippets: control characters that are not typed.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// A span of a snippet: its text, and whether it is a hit.
pub type Part = (String, bool);

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Id of the conversation.
    pub conversation: i64,
    /// Its title.
    pub title: String,
    /// Milliseconds since 1970.
    pub updated_at: i64,
    /// Id of the message. `None` means that the title matches.
    pub message: Option<i64>,
    /// The text around the hit.
    pub snippet: Vec<Part>,
}

/// Finds conversations by title and messages by text with every word of the query; words match by
/// prefix. Titles come first, then messages by rank. If no words match, the query is searched
/// literally, for languages without spaces.
pub fn search(connection: &Connection, query: &str) -> rusqlite::Result<Vec<Hit>> {
    let query = query.replace('\0', " ");
    let words: Vec<&str> = query.split_whitespace().collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let mut hits = titles(connection, &words)?;
    let in_words = messages_by_word(connection, &words)?;
    hits.extend(if in_words.is_empty() {
        messages_literally(connection, query.trim())?
    } else {
        in_words
    });
    hits.truncate(MOST_HITS);
    Ok(hits)
}

fn titles(connection: &Connection, words: &[&str]) -> rusqlite::Result<Vec<Hit>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, title, updated_at FROM conversation WHERE deleted_at IS NULL ORDER BY updated_at DESC",
    )?;
    let mut rows = statement.query([])?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let title: String = row.get(1)?;
        if words.iter().all(|word| find(&title, word).is_some()) {
            let snippet = around(&title, words[0]);
            hits.push(Hit {
                conversation: row.get(0)?,
                updated_at: row.get(2)?,
                message: None,
                snippet,
                title,
            });
            if hits.len() == MOST_HITS {
                break;
            }
        }
    }
    Ok(hits)
}

fn messages_by_word(connection: &Connection, words: &[&str]) -> rusqlite::Result<Vec<Hit>> {
    // In quotes nothing is FTS5's own syntax; a quote is doubled.
    let pattern: Vec<String> = words
        .iter()
        .map(|word| format!("\"{}\"*", word.replace('"', "\"\"")))
        .collect();
    connection
        .prepare_cached(
            "SELECT c.id, c.title, c.updated_at, m.id, snippet(message_fts, 0, ?2, ?3, '\u{2026}', ?4)
             FROM message_fts JOIN message m ON m.id = message_fts.rowid JOIN conversation c ON c.id = m.conversation
             WHERE message_fts MATCH ?1 AND c.deleted_at IS NULL
             ORDER BY message_fts.rank, m.id DESC LIMIT ?5",
        )?
        .query_map(
            params![
                pattern.join(" "),
                MARKS[0].to_string(),
                MARKS[1].to_string(),
                SNIPPET_WORDS,
                MOST_HITS as i64
            ],
            |row| {
                let snippet: String = row.get(4)?;
                Ok(Hit {
                    conversation: row.get(0)?,
                    title: row.get(1)?,
                    updated_at: row.get(2)?,
                    message: Some(row.get(3)?),
                    snippet: unmark(&snippet),
                })
            },
        )?
        .collect()
}

fn messages_literally(connection: &Connection, text: &str) -> rusqlite::Result<Vec<Hit>> {
    connection
        .prepare_cached(
            "SELECT c.id, c.title, c.updated_at, m.id, m.content
             FROM message m JOIN conversation c ON c.id = m.conversation
             WHERE instr(m.content, ?1) > 0 AND m.state <> 'unfinished' AND c.deleted_at IS NULL
             ORDER BY m.id DESC LIMIT ?2",
        )?
        .query_map(params![text, MOST_HITS as i64], |row| {
            Ok(Hit {
                conversation: row.get(0)?,
                title: row.get(1)?,
                updated_at: row.get(2)?,
                message: Some(row.get(3)?),
                snippet: around(row.get_ref(4)?.as_str()?, text),
            })
        })?
        .collect()
}

/// Splits a snippet at SQLite's marks.
fn unmark(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut hit = false;
    for piece in text.split(MARKS) {
        if !piece.is_empty() {
            parts.push((piece.to_owned(), hit));
        }
        hit = !hit;
    }
    parts
}

/// Byte range of a word in a text, ignoring case.
fn find(text: &str, word: &str) -> Option<(usize, usize)> {
    text.char_indices().find_map(|(start, _)| {
        let mut rest = text[start..].char_indices();
        let mut letters = word.chars().flat_map(char::to_lowercase).peekable();
        while letters.peek().is_some() {
            let (_, found) = rest.next()?;
            if !found.to_lowercase().all(|letter| letters.next() == Some(letter)) {
                return None;
            }
        }
        Some((start, rest.next().map_or(text.len(), |(at, _)| start + at)))
    })
}

/// The text around the first occurrence of a word.
fn around(text: &str, word: &str) -> Vec<Part> {
    let Some((start, end)) = find(text, word) else {
        return vec![(text.chars().take(2 * SNIPPET_MARGIN).collect(), false)];
    };
    let before: Vec<char> = text[..start].chars().rev().take(SNIPPET_MARGIN + 1).collect();
    let after: Vec<char> = text[end..].chars().take(SNIPPET_MARGIN + 1).collect();
    let mut head: String = before.iter().take(SNIPPET_MARGIN).rev().collect();
    let mut tail: String = after.iter().take(SNIPPET_MARGIN).collect();
    if before.len() > SNIPPET_MARGIN {
        head.insert(0, '\u{2026}');
    }
    if after.len() > SNIPPET_MARGIN {
        tail.push('\u{2026}');
    }
    [(head, false), (text[start..end].to_owned(), true), (tail, false)]
        .into_iter()
        .filter(|(text, _)| !text.is_empty())
        .collect()
}
