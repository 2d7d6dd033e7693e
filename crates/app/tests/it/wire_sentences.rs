//! Every value that the window and the CLI put into words has a message, whose placeholders are the
//! value's fields, and no message is left over.

use crate::wire_types::{Owner, owners};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The messages that the window and the CLI share, in English; a test of the window compares the
/// other languages with them.
const MESSAGES: [&str; 2] = [
    include_str!("../../../../ui/messages/en/problems.json"),
    include_str!("../../../../ui/messages/en/sentences.json"),
];

/// The enums that are put into words, and the prefixes of their messages. Those within them have
/// the names of their fields as prefixes.
const ROOTS: [(&str, &str); 16] = [
    ("BrokenReason", "broken"),
    ("ChatReason", "problem_chat"),
    ("DataReason", "problem_data"),
    ("DeviceStatus", "device_status"),
    ("DriverProblem", "driver_problem"),
    ("FindingKind", "finding"),
    ("LoadReason", "problem_load"),
    ("Mismatch", "mismatch"),
    ("ModelsReason", "problem_models"),
    ("Notice", "notice"),
    ("RequestReason", "problem_request"),
    ("Stage", "stage"),
    ("TrainingReason", "problem_training"),
    ("TuneReason", "problem_tune"),
    ("VerificationResult", "verification"),
    ("WorkerReason", "problem_worker"),
];

/// A walk through the values.
struct Walk {
    types: BTreeMap<String, Vec<Owner>>,
    messages: Map<String, Value>,
    visited: BTreeSet<(String, String)>,
    used: BTreeSet<String>,
    mistakes: Vec<String>,
}

#[test]
fn every_value_has_a_message_with_its_fields() {
    let mut walk = Walk::new();
    for (ty, prefix) in ROOTS {
        walk.visit(ty, prefix);
    }
    // `Reason::Detail` is the only reason without an area.
    walk.used.insert("problem_detail".to_owned());
    let all: BTreeSet<String> = walk.messages.keys().cloned().collect();
    let unused = all.difference(&walk.used).map(|key| format!("{key}: no value has it"));
    let mistakes: Vec<String> = walk.mistakes.into_iter().chain(unused).collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    assert!(walk.used.len() > 400, "{}", walk.used.len());
}

impl Walk {
    fn new() -> Self {
        let mut types: BTreeMap<String, Vec<Owner>> = BTreeMap::new();
        for owner in owners() {
            types.entry(owner.ty.clone()).or_default().push(owner);
        }
        let parse = |text| serde_json::from_str::<Map<String, Value>>(text).expect("JSON");
        Self {
            types,
            messages: MESSAGES.into_iter().flat_map(parse).collect(),
            visited: BTreeSet::new(),
            used: BTreeSet::new(),
            mistakes: Vec::new(),
        }
    }

    /// Checks the variants of an enum, and the enums in their fields.
    fn visit(&mut self, ty: &str, prefix: &str) {
        if !self.visited.insert((ty.to_owned(), prefix.to_owned())) {
            return;
        }
        let mut nested = Vec::new();
        for variant in self.types[ty].clone() {
            let fields = self.fields(&variant);
            let key = format!("{prefix}_{}", snake(variant.variant.as_deref().expect("a variant")));
            match self.messages.get(&key) {
                None => self.mistakes.push(format!("{key}: missing, for {}", variant.name())),
                Some(message) => {
                    let names: BTreeSet<String> = fields.iter().map(|(name, _)| camel(name)).collect();
                    for unknown in placeholders(message).difference(&names) {
                        self.mistakes.push(format!("{key}: {{{unknown}}} is no field"));
                    }
                }
            }
            self.used.insert(key);
            for (name, types) in fields {
                let is_enum = |ty: &&String| self.is_enum(ty) && *ty != "ProblemCode";
                nested.extend(types.iter().filter(is_enum).map(|ty| (ty.clone(), name.clone())));
            }
        }
        for (ty, name) in nested {
            self.visit(&ty, &name);
        }
    }

    fn is_enum(&self, ty: &str) -> bool {
        let owners = self.types.get(ty);
        owners.is_some_and(|owners| owners.iter().all(|owner| owner.variant.is_some()))
    }

    /// A variant's fields; of a struct in it, that struct's.
    fn fields(&self, variant: &Owner) -> Vec<(String, Vec<String>)> {
        match variant.fields.as_slice() {
            [(number, types)] if number == "0" => self.types[&types[0]][0].fields.clone(),
            fields => fields.to_vec(),
        }
    }
}

/// The placeholders of a message, or the inputs of one with plural forms.
fn placeholders(message: &Value) -> BTreeSet<String> {
    let in_text = |text: &str| -> Vec<String> {
        let parts = text.split('{').skip(1);
        parts
            .filter_map(|part| Some(part.split_once('}')?.0.to_owned()))
            .collect()
    };
    match message {
        Value::String(text) => in_text(text).into_iter().collect(),
        variants => {
            let declarations = variants[0]["declarations"].as_array().expect("declarations");
            let inputs = declarations
                .iter()
                .filter_map(|declaration| declaration.as_str()?.strip_prefix("input "));
            inputs.map(str::to_owned).collect()
        }
    }
}

/// `NoSuchDevice` as `no_such_device`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// `limit_bytes` as `limitBytes`.
fn camel(name: &str) -> String {
    let mut camel = String::new();
    let mut is_start = false;
    for letter in name.chars() {
        match letter {
            '_' => is_start = true,
            letter if is_start => {
                camel.push(letter.to_ascii_uppercase());
                is_start = false;
            }
            letter => camel.push(letter),
        }
    }
    camel
}
