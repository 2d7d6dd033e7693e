//! The common form of an imported conversation, and its tree: parents before children, without
//! cycles, missing parents and empty messages.

use super::{system_prompt::SystemPrompt, text};
use crate::{
    title,
    wire::{self, ConversationSettings},
};
use hearth_protocol::{Part, Role};
use std::collections::HashMap;

/// Most messages of one conversation.
pub(super) const MAX_MESSAGES: usize = 200_000;

/// A conversation in the form of its format.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ImportedConversation {
    /// Its id in its program; empty if the format has none.
    pub id: String,
    pub title: Option<String>,
    /// Milliseconds since 1970.
    pub created_at: Option<i64>,
    /// Milliseconds since 1970.
    pub updated_at: Option<i64>,
    /// The last model.
    pub model: Option<String>,
    pub system: SystemPrompt,
    /// The settings of new answers.
    pub settings: ConversationSettings,
    /// Id of the last message of the selected branch.
    pub current: Option<String>,
    /// Any order; parents by id.
    pub messages: Vec<ImportedMessage>,
}

/// A message in the form of its format.
#[derive(Debug, PartialEq)]
pub(super) struct ImportedMessage {
    /// Unique in its conversation. The first message with a repeated id counts.
    pub id: String,
    pub parent: Option<String>,
    pub role: Role,
    /// A message without parts is left out, and its children become children of its parent.
    pub parts: Vec<Part>,
    /// Milliseconds since 1970.
    pub created_at: Option<i64>,
    pub model: Option<String>,
    pub thumb: Option<wire::Thumb>,
    /// The message of a Hearth export, without its parts.
    pub whole: Option<Box<wire::Message>>,
}

impl ImportedMessage {
    pub fn new(id: impl Into<String>, parent: Option<String>, role: Role, parts: Vec<Part>) -> Self {
        Self {
            id: id.into(),
            parent,
            role,
            parts,
            created_at: None,
            model: None,
            thumb: None,
            whole: None,
        }
    }
}

/// A message with its parent by index.
#[derive(Debug, PartialEq)]
pub(super) struct Node {
    /// Index of its parent, which comes before it.
    pub parent: Option<usize>,
    pub message: ImportedMessage,
}

/// The nodes of a conversation, and the index of the last one of its selected branch.
#[derive(Debug, PartialEq)]
pub(super) struct Tree {
    pub nodes: Vec<Node>,
    pub current: Option<usize>,
}

impl ImportedConversation {
    /// Appends a message after the last one, for formats that are lists.
    pub fn push(&mut self, role: Role, parts: Vec<Part>) -> &mut ImportedMessage {
        let index = self.messages.len();
        let parent = index.checked_sub(1).map(|previous| previous.to_string());
        let message = ImportedMessage::new(index.to_string(), parent, role, parts);
        self.messages.push(message);
        &mut self.messages[index]
    }

    /// Shortens the names of models, files and tools.
    pub fn shorten_names(&mut self) {
        shorten(&mut self.model);
        for message in &mut self.messages {
            shorten(&mut message.model);
            message.parts.iter_mut().for_each(title::shorten_names);
            if let Some(whole) = &mut message.whole {
                shorten(&mut whole.model);
                let adapters = whole.adapters.iter_mut();
                adapters.for_each(|adapter| adapter.name = title::shown(&adapter.name));
            }
        }
    }

    /// Takes the messages as a tree. Moves system messages into the system prompt, and separates
    /// reasoning and tool results.
    pub fn take_tree(&mut self) -> Tree {
        let mut messages = std::mem::take(&mut self.messages);
        for message in &mut messages {
            if message.whole.is_some() {
                continue;
            }
            match message.role {
                Role::System => {
                    let parts = std::mem::take(&mut message.parts);
                    self.system.add(&hearth_protocol::text_of(&parts));
                }
                Role::Assistant => message.parts = text::with_thoughts(std::mem::take(&mut message.parts)),
                Role::User => {}
            }
        }
        let tree = tree(messages, self.current.as_deref());
        split_tools(join_answers(tree))
    }
}

fn shorten(name: &mut Option<String>) {
    *name = name.as_deref().and_then(title::normalized);
}

/// Sorts parents before children, in the order of the format as far as possible.
fn tree(messages: Vec<ImportedMessage>, current: Option<&str>) -> Tree {
    let mut by_id: HashMap<String, usize> = HashMap::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        by_id.entry(message.id.clone()).or_insert(at);
    }
    let parents: Vec<Option<usize>> = messages
        .iter()
        .enumerate()
        .map(|(at, message)| {
            by_id
                .get(message.parent.as_deref()?)
                .copied()
                .filter(|parent| *parent != at)
        })
        .collect();
    let parents = without_cycles(parents);
    let is_empty = |at: usize| messages[at].parts.is_empty() && messages[at].whole.is_none();
    // For each empty message, its nearest ancestor with content.
    let mut nearest: Vec<Option<Option<usize>>> = vec![None; messages.len()];
    let mut nearest_from = |from: Option<usize>| {
        let (mut at, mut path) = (from, Vec::new());
        let ancestor = loop {
            match at {
                Some(index) if !is_empty(index) => break Some(index),
                Some(index) => match nearest[index] {
                    Some(cached) => break cached,
                    None => {
                        path.push(index);
                        at = parents[index];
                    }
                },
                None => break None,
            }
        };
        path.into_iter().for_each(|index| nearest[index] = Some(ancestor));
        ancestor
    };
    let parents_with_content: Vec<Option<usize>> = (0..messages.len()).map(|at| nearest_from(parents[at])).collect();
    let current = current.and_then(|id| nearest_from(by_id.get(id).copied()));

    let mut new_index: Vec<Option<usize>> = vec![None; messages.len()];
    let mut order = Vec::new();
    for at in 0..messages.len() {
        if is_empty(at) {
            continue;
        }
        let (mut ancestor, mut chain) = (Some(at), Vec::new());
        while let Some(index) = ancestor.filter(|index| new_index[*index].is_none()) {
            chain.push(index);
            ancestor = parents_with_content[index];
        }
        for index in chain.into_iter().rev() {
            new_index[index] = Some(order.len());
            order.push(index);
        }
    }
    let mut messages: Vec<Option<ImportedMessage>> = messages.into_iter().map(Some).collect();
    let nodes = order.into_iter().filter_map(|at| {
        Some(Node {
            parent: parents_with_content[at].and_then(|parent| new_index[parent]),
            message: messages[at].take()?,
        })
    });
    Tree {
        nodes: nodes.collect(),
        current: current.and_then(|at| new_index[at]),
    }
}

/// Breaks cycles: one message of each cycle becomes a root.
fn without_cycles(mut parents: Vec<Option<usize>>) -> Vec<Option<usize>> {
    // 0: not seen; n: seen on the walk that began at message n - 1.
    let mut seen = vec![0; parents.len()];
    for start in 0..parents.len() {
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = start + 1;
            match parents[at] {
                Some(parent) if seen[parent] == start + 1 => parents[at] = None,
                Some(parent) => at = parent,
                None => break,
            }
        }
    }
    parents
}

/// Joins an answer with the answer that is its only child. Some programs store reasoning or a tool
/// call, and the text after it, as separate messages.
fn join_answers(tree: Tree) -> Tree {
    let mut children = vec![0; tree.nodes.len()];
    for node in &tree.nodes {
        if let Some(parent) = node.parent {
            children[parent] += 1;
        }
    }
    let mut new_index: Vec<usize> = Vec::with_capacity(tree.nodes.len());
    let mut nodes: Vec<Node> = Vec::new();
    for node in tree.nodes {
        let parent = node.parent.map(|parent| new_index[parent]);
        let is_joinable_parent = |index: &usize| {
            let message = &nodes[*index].message;
            message.role == Role::Assistant && message.whole.is_none()
        };
        let is_only_child = node.parent.is_some_and(|parent| children[parent] == 1);
        let is_joinable = node.message.role == Role::Assistant && node.message.whole.is_none() && is_only_child;
        match parent.filter(|index| is_joinable && is_joinable_parent(index)) {
            Some(index) => {
                let joined = &mut nodes[index].message;
                joined.parts.extend(node.message.parts);
                joined.model = node.message.model.or(joined.model.take());
                joined.thumb = node.message.thumb.or(joined.thumb);
                new_index.push(index);
            }
            None => {
                new_index.push(nodes.len());
                nodes.push(Node {
                    parent,
                    message: node.message,
                });
            }
        }
    }
    Tree {
        nodes,
        current: tree.current.map(|at| new_index[at]),
    }
}

/// Splits answers at tool results, which become messages of the user.
fn split_tools(tree: Tree) -> Tree {
    let mut new_index: Vec<usize> = Vec::with_capacity(tree.nodes.len());
    let mut nodes: Vec<Node> = Vec::new();
    for node in tree.nodes {
        let mut parent = node.parent.map(|parent| new_index[parent]);
        let mut message = node.message;
        if message.role == Role::Assistant && message.whole.is_none() {
            for (role, parts) in by_role(std::mem::take(&mut message.parts)) {
                let piece = ImportedMessage {
                    role,
                    parts,
                    id: String::new(),
                    parent: None,
                    created_at: message.created_at,
                    model: message.model.clone().filter(|_| role == Role::Assistant),
                    thumb: None,
                    whole: None,
                };
                nodes.push(Node { parent, message: piece });
                parent = Some(nodes.len() - 1);
            }
            if let Some(last) = nodes.last_mut() {
                last.message.thumb = message.thumb.filter(|_| last.message.role == Role::Assistant);
            }
        } else {
            nodes.push(Node { parent, message });
        }
        new_index.push(nodes.len() - 1);
    }
    Tree {
        nodes,
        current: tree.current.map(|at| new_index[at]),
    }
}

/// Groups consecutive parts by their role.
fn by_role(parts: Vec<Part>) -> Vec<(Role, Vec<Part>)> {
    let mut runs: Vec<(Role, Vec<Part>)> = Vec::new();
    for part in parts {
        let role = match part {
            Part::ToolResult { .. } => Role::User,
            _ => Role::Assistant,
        };
        match runs.last_mut() {
            Some((last, run)) if *last == role => run.push(part),
            _ => runs.push((role, vec![part])),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text { text: text.to_owned() }]
    }

    fn message(id: &str, parent: Option<&str>, role: Role, content: &str) -> ImportedMessage {
        let parts = if content.is_empty() { Vec::new() } else { text(content) };
        ImportedMessage::new(id, parent.map(str::to_owned), role, parts)
    }

    fn shape(tree: &Tree) -> Vec<(Option<usize>, String)> {
        let nodes = tree.nodes.iter();
        nodes
            .map(|node| (node.parent, hearth_protocol::text_of(&node.message.parts)))
            .collect()
    }

    #[test]
    fn a_tree_without_its_empty_messages() {
        use Role::{Assistant, System, User};
        let mut conversation = ImportedConversation {
            current: Some("e".to_owned()),
            messages: vec![
                message("d", Some("c"), Assistant, "two"),
                message("root", None, System, ""),
                message("s", Some("root"), System, "Be brief."),
                message("c", Some("s"), User, "one"),
                message("e", Some("d"), Assistant, ""),
                message("other", Some("c"), Assistant, "2"),
                message("lost", Some("nowhere"), User, "alone"),
                message("d", Some("c"), Assistant, "the same id"),
            ],
            ..ImportedConversation::default()
        };
        let tree = conversation.take_tree();
        let expected = [
            (None, "one"),
            (Some(0), "two"),
            (Some(0), "2"),
            (None, "alone"),
            (Some(0), "the same id"),
        ];
        assert_eq!(shape(&tree), expected.map(|(parent, text)| (parent, text.to_owned())));
        assert_eq!(tree.current, Some(1));
        assert_eq!(conversation.system.text(), Some("Be brief."));
    }

    #[test]
    fn answers_in_a_row_are_joined_and_results_of_tools_split() {
        let mut conversation = ImportedConversation::default();
        conversation.push(Role::User, text("what?"));
        conversation.push(Role::Assistant, vec![Part::Thinking { text: "Hm.".to_owned() }]);
        let result = Part::ToolResult {
            id: "1".to_owned(),
            name: "sum".to_owned(),
            text: "3".to_owned(),
        };
        conversation.push(Role::Assistant, vec![result, text("so").remove(0)]);
        let tree = conversation.take_tree();
        let roles: Vec<Role> = tree.nodes.iter().map(|node| node.message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant]);
        assert_eq!(tree.nodes[3].parent, Some(2));
    }

    proptest! {
        #[test]
        fn any_parents_make_a_forest(parents in prop::collection::vec((0..30usize, any::<bool>()), 0..30)) {
            let messages = parents.iter().enumerate().map(|(at, (parent, empty))| {
                let content = if *empty { "" } else { "text" };
                message(&at.to_string(), Some(&parent.to_string()), Role::User, content)
            });
            let mut conversation = ImportedConversation {
                messages: messages.collect(),
                ..ImportedConversation::default()
            };
            let tree = conversation.take_tree();
            prop_assert_eq!(tree.nodes.len(), parents.iter().filter(|(_, empty)| !empty).count());
            for (at, node) in tree.nodes.iter().enumerate() {
                prop_assert!(node.parent.is_none_or(|parent| parent < at));
            }
        }
    }
}
