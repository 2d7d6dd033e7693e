//! Full-text search over messages and titles.

use hearth_protocol::Role;
use rusqlite::{Connection, ToSql};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

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
const MAX_HITS: u32 = 50;

/// Words of a snippet.
const SNIPPET_WORDS: i64 = 16;

/// Characters on either side of a hit, in snippets not made by SQLite.
const SNIPPET_MARGIN: usize = 40;

/// Marks around a hit in SQLite's snippets: control characters that are not typed.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// A span of a snippet: its text, and whether it is a hit.
pub type Part = (String, bool);

/// Conditions on the messages of a search. `None` means no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[ts(rename = "SearchFilter")]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    /// Id of the folder.
    pub folder: Option<i64>,
    /// A tag of the conversation.
    pub tag: Option<String>,
    /// Author of the message. With one, titles are not searched.
    pub role: Option<Role>,
    /// Earliest time of the message (of a title, of the conversation's last message), in
    /// milliseconds since 1970.
    pub since: Option<i64>,
    /// Latest such time.
    pub until: Option<i64>,
}

/// SQL conditions on conversations and on the time of a hit. `TIME` is a placeholder for its
/// column.
const CONDITIONS: &str = "c.deleted_at IS NULL
    AND (:folder IS NULL OR c.folder = :folder)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM tag WHERE tag.conversation = c.id AND tag.name = :tag))
    AND (:since IS NULL OR TIME >= :since) AND (:until IS NULL OR TIME <= :until)";

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
/// literally, for languages without spaces. Without a word, a filter lists conversations.
pub fn search(connection: &Connection, query: &str, filter: &Filter) -> rusqlite::Result<Vec<Hit>> {
    let query = query.replace('\0', " ");
    let words: Vec<&str> = query.split_whitespace().collect();
    if words.is_empty() && *filter == Filter::default() {
        return Ok(Vec::new());
    }
    let mut hits = match filter.role {
        None => titles(connection, &words, filter)?,
        Some(_) if words.is_empty() => return messages_literally(connection, "", filter),
        Some(_) => Vec::new(),
    };
    if words.is_empty() {
        return Ok(hits);
    }
    let word_hits = messages_by_word(connection, &words, filter)?;
    hits.extend(if word_hits.is_empty() {
        messages_literally(connection, query.trim(), filter)?
    } else {
        word_hits
    });
    hits.truncate(MAX_HITS as usize);
    Ok(hits)
}

fn titles(connection: &Connection, words: &[&str], filter: &Filter) -> rusqlite::Result<Vec<Hit>> {
    let conditions = CONDITIONS.replace("TIME", "c.updated_at");
    let mut statement = connection.prepare_cached(&format!(
        "SELECT c.id, c.title, c.updated_at FROM conversation c WHERE {conditions} ORDER BY c.updated_at DESC"
    ))?;
    let mut rows = statement.query(&filter_parameters(filter)[..])?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let title: String = row.get(1)?;
        if words.iter().all(|word| find(&title, word).is_some()) {
            let snippet = around(&title, words.first().unwrap_or(&""));
            hits.push(Hit {
                conversation: row.get(0)?,
                updated_at: row.get(2)?,
                message: None,
                snippet,
                title,
            });
            if hits.len() == MAX_HITS as usize {
                break;
            }
        }
    }
    Ok(hits)
}

fn messages_by_word(connection: &Connection, words: &[&str], filter: &Filter) -> rusqlite::Result<Vec<Hit>> {
    // Quotes disable FTS5's query syntax. A quote in a word is doubled.
    let pattern: Vec<String> = words
        .iter()
        .map(|word| format!("\"{}\"*", word.replace('"', "\"\"")))
        .collect();
    let (pattern, start, end) = (pattern.join(" "), MARKS[0].to_string(), MARKS[1].to_string());
    let query_parameters: [(&str, &dyn ToSql); 4] = [
        (":query", &pattern),
        (":start", &start),
        (":end", &end),
        (":words", &SNIPPET_WORDS),
    ];
    connection
        .prepare_cached(&format!(
            "SELECT c.id, c.title, c.updated_at, m.id, snippet(message_fts, 0, :start, :end, '\u{2026}', :words)
             FROM message_fts JOIN message m ON m.id = message_fts.rowid JOIN conversation c ON c.id = m.conversation
             WHERE message_fts MATCH :query AND {}
             ORDER BY message_fts.rank, m.id DESC LIMIT :limit",
            message_conditions(filter)
        ))?
        .query_map(&parameters(filter, &query_parameters)[..], |row| {
            let snippet: String = row.get(4)?;
            Ok(Hit {
                conversation: row.get(0)?,
                title: row.get(1)?,
                updated_at: row.get(2)?,
                message: Some(row.get(3)?),
                snippet: unmark(&snippet),
            })
        })?
        .collect()
}

/// The conditions on a message and its conversation.
fn message_conditions(filter: &Filter) -> String {
    let conditions = CONDITIONS.replace("TIME", "m.created_at");
    match filter.role {
        Some(role) => format!("{conditions} AND m.role = '{}'", role.name()),
        None => conditions,
    }
}

/// The parameters of [`message_conditions`], the limit, and a query's other parameters.
fn parameters<'a>(filter: &'a Filter, others: &[(&'a str, &'a dyn ToSql)]) -> Vec<(&'a str, &'a dyn ToSql)> {
    let limit: [(&str, &dyn ToSql); 1] = [(":limit", &MAX_HITS)];
    filter_parameters(filter)
        .iter()
        .chain(&limit)
        .chain(others)
        .copied()
        .collect()
}

/// The parameters of [`CONDITIONS`].
fn filter_parameters(filter: &Filter) -> [(&str, &dyn ToSql); 4] {
    [
        (":folder", &filter.folder),
        (":tag", &filter.tag),
        (":since", &filter.since),
        (":until", &filter.until),
    ]
}

fn messages_literally(connection: &Connection, text: &str, filter: &Filter) -> rusqlite::Result<Vec<Hit>> {
    connection
        .prepare_cached(&format!(
            "SELECT c.id, c.title, c.updated_at, m.id, m.content
             FROM message m JOIN conversation c ON c.id = m.conversation
             WHERE instr(m.content, :text) > 0 AND m.state <> 'unfinished' AND {}
             ORDER BY m.id DESC LIMIT :limit",
            message_conditions(filter)
        ))?
        .query_map(&parameters(filter, &[(":text", &text)])[..], |row| {
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
    let mut is_hit = false;
    for piece in text.split(MARKS) {
        if !piece.is_empty() {
            parts.push((piece.to_owned(), is_hit));
        }
        is_hit = !is_hit;
    }
    parts
}

/// Byte range of a word in a text, ignoring case.
fn find(text: &str, word: &str) -> Option<(usize, usize)> {
    text.char_indices().find_map(|(start, _)| {
        let mut rest = text[start..].char_indices();
        let mut letters = word.chars().flat_map(char::to_lowercase).peekable();
        while letters.peek().is_some() {
            let (_, character) = rest.next()?;
            if !character.to_lowercase().all(|letter| letters.next() == Some(letter)) {
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
