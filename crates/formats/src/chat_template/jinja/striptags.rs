//! The filter `striptags`, compatible with MarkupSafe.

use super::text::is_space;

/// Removes tags and comments, and collapses white space.
pub(super) fn striptags(text: &str) -> String {
    let text = without(text, "<!--", "-->");
    let text = without(&text, "<", ">");
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    let mut text = words.join(" ");
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    text
}

/// Removes each range from an `open` to the next `close` until there is none: a removal may join
/// the text around it to a new `open`. `open` and `close` may share bytes, as in `<!-->`. Takes
/// linear time: a single scan matches `open` against the end of the output.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        out.push(character);
        rest = &rest[character.len_utf8()..];
        if !out.ends_with(open) {
            continue;
        }
        let shared_bytes = (1..close.len())
            .rev()
            .find(|&shared| open.ends_with(&close[..shared]) && rest.starts_with(&close[shared..]));
        let end = match shared_bytes {
            Some(shared) => Some(close.len() - shared),
            None => rest.find(close).map(|start| start + close.len()),
        };
        let Some(end) = end else { break };
        out.truncate(out.len() - open.len());
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// MarkupSafe's loop, which restarts at the beginning after each removal.
    fn without_by_restarts(text: &str, open: &str, close: &str) -> String {
        let mut text = text.to_owned();
        while let Some(start) = text.find(open) {
            let Some(length) = text[start..].find(close) else { break };
            text.replace_range(start..start + length + close.len(), "");
        }
        text
    }

    proptest! {
        #[test]
        fn a_single_scan_removes_what_markupsafe_removes(text in "[<>!é-]{0,40}") {
            for (open, close) in [("<!--", "-->"), ("<", ">")] {
                prop_assert_eq!(without(&text, open, close), without_by_restarts(&text, open, close), "{}", open);
            }
        }
    }

    #[test]
    fn comments_and_tags_are_removed_and_entities_decoded() {
        for (text, expected) in [
            ("a <b>c</b>  <!-- <d> -->\n e", "a c e"),
            ("<!-->a<!--->b", "ab"),
            ("<<!-- -->!-- x -->y", "y"),
            ("a < b <c", "a < b <c"),
            ("&lt;b&gt; &amp;lt;", "<b> &lt;"),
        ] {
            assert_eq!(striptags(text), expected, "{text}");
        }
    }
}
