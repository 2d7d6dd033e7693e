//! Extracts fields from the JSON printed by `hearth` and llama.cpp. Not a full parser, since
//! `xtask` has no dependencies.

/// The text after `"name":`, to the end.
fn after<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let quoted = format!("\"{name}\"");
    let mut rest = json;
    // A string may equal the name too; a field is followed by a colon.
    while let Some(at) = rest.find(&quoted) {
        rest = &rest[at + quoted.len()..];
        if let Some(value) = rest.trim_start().strip_prefix(':') {
            return Some(value.trim_start());
        }
    }
    None
}

/// The contents of the first flat list of this name, without brackets.
pub fn list<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (list, _) = after(json, name)?.strip_prefix('[')?.split_once(']')?;
    Some(list)
}

/// The first string of this name, still escaped; `None` if it is null.
pub fn text<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    text_at(after(json, name)?)
}

/// Parses a string value.
fn text_at(value: &str) -> Option<&str> {
    let value = value.strip_prefix('"')?;
    let mut escaped = false;
    let end = value.find(|c| {
        let found = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        found
    })?;
    Some(&value[..end])
}

/// All strings of this name.
pub fn texts<'a>(json: &'a str, name: &str) -> Vec<&'a str> {
    let mut rest = json;
    std::iter::from_fn(|| {
        rest = after(rest, name)?;
        Some(text_at(rest))
    })
    .flatten()
    .collect()
}

/// The first number of this name.
pub fn number(json: &str, name: &str) -> Option<f64> {
    let value = after(json, name)?;
    let end = value.find([',', '}', ']']).unwrap_or(value.len());
    value[..end].trim().parse().ok()
}

/// The first list of numbers of this name.
pub fn numbers(json: &str, name: &str) -> Vec<f64> {
    let list = after(json, name).and_then(|value| value.strip_prefix('['));
    let list = list.and_then(|list| list.split(']').next()).unwrap_or_default();
    list.split(',')
        .filter_map(|number| number.trim().parse().ok())
        .collect()
}

/// Whether the first field of this name is true.
pub fn is(json: &str, name: &str) -> bool {
    after(json, name).is_some_and(|value| value.starts_with("true"))
}

/// The objects that start with an `id` field, as devices do.
pub fn device_objects(json: &str) -> Vec<&str> {
    const ID: &str = "{\"id\":";
    let mut starts: Vec<usize> = json.match_indices(ID).map(|(at, _)| at).collect();
    starts.push(json.len());
    starts.windows(2).map(|pair| &json[pair[0]..pair[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed() {
        let devices = r#"{"devices":[{"id":"cpu","why":"say \"name\"","usable":true,"driver":null},
            {"id":"gpu0","name":"Card","usable":false,"memory_total":1024}]}"#;
        let found = device_objects(devices);
        assert_eq!(found.len(), 2);
        assert_eq!((text(found[0], "id"), text(found[0], "driver")), (Some("cpu"), None));
        assert_eq!(text(found[0], "why"), Some(r#"say \"name\""#));
        assert_eq!((text(found[0], "name"), text(found[1], "name")), (None, Some("Card")));
        assert_eq!((is(found[0], "usable"), is(found[1], "usable")), (true, false));
        assert_eq!(number(found[1], "memory_total"), Some(1024.0));
        let backends = r#"[{"build":"cuda","check":{"mismatch":null}},{"build":null},{"build":"portable"}]"#;
        assert_eq!(texts(backends, "build"), ["cuda", "portable"]);
        let bench = r#"{"prompt_tok_s":null,"gen_tok_s":2.5e1,"losses":[6.5,1e-1],"avg_ts": 3.25}"#;
        assert_eq!(
            (number(bench, "prompt_tok_s"), number(bench, "gen_tok_s")),
            (None, Some(25.0))
        );
        assert_eq!(
            (numbers(bench, "losses"), number(bench, "avg_ts")),
            (vec![6.5, 0.1], Some(3.25))
        );
        assert_eq!(numbers(bench, "steps"), Vec::<f64>::new());
    }
}
