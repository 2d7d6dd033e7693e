//! The queue of opened links, until the page takes them.

use crate::{
    link::{is_link, parse},
    lock::lock,
    wire::Link,
};
use std::{collections::VecDeque, sync::Mutex};

/// Most links in the queue; later ones are dropped. A web page may open any number of links.
const MAX_WAITING: usize = 8;

/// Opened links that the page has not taken yet.
#[derive(Debug, Default)]
pub struct LinkQueue(Mutex<VecDeque<Link>>);

impl LinkQueue {
    /// Adds the arguments that are links, without duplicates. Returns whether it added any.
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
    fn links_among_arguments_are_queued_once_each() {
        let queue = LinkQueue::default();
        assert!(!queue.add(["--flag".to_owned(), "/a/file".to_owned()]));
        assert!(queue.add(conversations([2, 1, 2])));
        assert!(!queue.add(conversations([1])));
        let expected: Vec<Link> = [2, 1].map(|id| Link::Conversation { id }).to_vec();
        assert_eq!(queue.take(), expected);
        assert!(queue.take().is_empty());
        assert!(
            queue.add(conversations([1])),
            "a link may be opened again after it was taken"
        );
    }

    #[test]
    fn links_beyond_the_limit_are_dropped() {
        let queue = LinkQueue::default();
        assert!(queue.add(conversations(0..100)));
        assert!(!queue.add(conversations([200])));
        assert_eq!(queue.take().len(), MAX_WAITING);
    }
}
