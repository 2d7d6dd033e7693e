//! Links that were opened and wait until the page takes them.

use crate::{
    link::{is_link, parse},
    lock::lock,
    wire::Link,
};
use std::{collections::VecDeque, sync::Mutex};

/// Most links that wait. A page may open any number of them; the first ones count.
const MAX_WAITING: usize = 8;

/// Links that wait for the page.
#[derive(Debug, Default)]
pub struct LinkQueue(Mutex<VecDeque<Link>>);

impl LinkQueue {
    /// Adds the arguments that are links, except those that wait already. Returns whether it added
    /// any.
    pub fn add(&self, arguments: impl IntoIterator<Item = String>) -> bool {
        let mut waiting = lock(&self.0);
        let before = waiting.len();
        let links = arguments.into_iter().filter(|argument| is_link(argument));
        for link in links.map(|text| parse(&text)) {
            if waiting.len() < MAX_WAITING && !waiting.contains(&link) {
                waiting.push_back(link);
            }
        }
        waiting.len() > before
    }

    /// Takes all links, in the order in which they were opened.
    pub fn take(&self) -> Vec<Link> {
        lock(&self.0).drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversations(ids: impl IntoIterator<Item = i64>) -> Vec<String> {
        ids.into_iter()
            .map(|id| format!("hearth://conversation/{id}"))
            .collect()
    }

    #[test]
    fn links_among_arguments_wait_once_each() {
        let queue = LinkQueue::default();
        assert!(!queue.add(["--flag".to_owned(), "/a/file".to_owned()]));
        assert!(queue.add(conversations([2, 1, 2])));
        assert!(!queue.add(conversations([1])));
        let expected: Vec<Link> = [2, 1].map(|id| Link::Conversation { id }).to_vec();
        assert_eq!(queue.take(), expected);
        assert!(queue.take().is_empty());
        assert!(queue.add(conversations([1])), "what was taken may be opened again");
    }

    #[test]
    fn the_first_ones_count() {
        let queue = LinkQueue::default();
        assert!(queue.add(conversations(0..100)));
        assert!(!queue.add(conversations([200])));
        assert_eq!(queue.take().len(), MAX_WAITING);
    }
}
