//! The filter `striptags`, as MarkupSafe does it.

use super::text::is_space;

/// A text without tags and comments, its white space in single spaces.
pub(super) fn striptags(text: &str) -> String {
    let text = without(text, "<!--", "-->");
    let text = without(&text, "<", ">");
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    let mut text = words.join(" ");
    for (name, sign) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ] {
        text = text.replace(name, sign);
    }
    text
}

/// A text without all from an `open` to the next `close`, again and again: an `open` may arise of what stands around a removed
/// part, and the two may share bytes, as in `<!-->`. One pass: nothing before the end of the output is read twice.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        out.push(character);
        rest = &rest[character.len_utf8()..];
        if !out.ends_with(open) {
            continue;
        }
        let shared = (1..close.len())
            .rev()
            .find(|&shared| open.ends_with(&close[..shared]) && rest.starts_with(&close[shared..]));
        let end = match shared {
            Some(shared) => Some(close.len() - shared),
            None => rest.find(close).map(|at| at + close.len()),
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

    /// MarkupSafe's own loop, which goes back to the beginning after each part that it removes.
    fn from_the_beginning(text: &str, open: &str, close: &str) -> String {
        let mut text = text.to_owned();
        while let Some(start) = text.find(open) {
            let Some(length) = text[start..].find(close) else { break };
            text.replace_range(start..start + length + close.len(), "");
        }
        text
    }

    proptest! {
        #[test]
        fn one_pass_removes_what_markupsafe_removes(text in "[<>!é-]{0,40}") {
            for (open, close) in [("<!--", "-->"), ("<", ">")] {
                prop_assert_eq!(without(&text, open, close), from_the_beginning(&text, open, close), "{}", open);
            }
        }
    }

    #[test]
    fn comments_and_tags_go_and_signs_come_back() {
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
