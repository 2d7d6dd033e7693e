//! No sentence comes over the wire: a string is what a user, a model, a file or the system wrote,
//! or an id. `wire_strings.txt` lists each with its kind.

use crate::wire_types::{Owner, owners};
use std::collections::{BTreeMap, BTreeSet};

/// `TYPE.FIELD KIND` or `TYPE::VARIANT.FIELD KIND`, sorted.
const LISTED: &str = include_str!("wire_strings.txt");

/// Who wrote a string: a file or the hub, Hearth as an id, a model, the system (a library or driver
/// included), the user, or the window, already translated.
const KINDS: [&str; 6] = ["file", "id", "model", "system", "user", "window"];

#[test]
fn every_string_is_data_and_listed() {
    let listed: BTreeMap<&str, &str> = LISTED.lines().filter_map(|line| line.split_once(' ')).collect();
    let lines: Vec<&str> = LISTED.lines().collect();
    assert!(
        lines.is_sorted() && listed.len() == lines.len(),
        "a line is doubled or out of order"
    );
    for (field, kind) in &listed {
        assert!(KINDS.contains(kind), "{field}: {kind} is not one of {KINDS:?}");
    }
    let strings: BTreeSet<String> = owners().iter().flat_map(strings_of).collect();
    assert!(strings.len() > 100, "{}", strings.len());
    let listed: BTreeSet<String> = listed.into_keys().map(str::to_owned).collect();
    let new: Vec<&String> = strings.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&strings).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "Strings that wire_strings.txt does not list; a sentence should be an enum with data: {new:#?}\nListed, but \
         gone: {gone:#?}"
    );
}

/// The strings among the fields of a struct or variant.
fn strings_of(owner: &Owner) -> Vec<String> {
    let fields = owner
        .fields
        .iter()
        .filter(|(_, types)| types.iter().any(|name| name == "String"));
    fields.map(|(name, _)| format!("{}.{name}", owner.name())).collect()
}
