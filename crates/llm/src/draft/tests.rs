//! Tests drafts that share the cells of their target, in the cases in which drafts of llama.cpp
//! overwrote them (<https://github.com/ggml-org/llama.cpp/pull/24267>).

use super::*;
use crate::cache::{Cache, CacheSize, LayerGroup, Sequence};
use crate::error::CacheError;
use hearth_kernels::attention::{KvFormat, PAGE};
use std::sync::Arc;

/// Two layers, the second with this window.
fn groups(window: Option<usize>) -> Vec<LayerGroup> {
    let group = |layer: usize, window| LayerGroup {
        layers: vec![layer],
        kv_heads: 1,
        head_dim: 32,
        window,
    };
    vec![group(0, None), group(1, window)]
}

fn cache(context: usize, window: Option<usize>, format: KvFormat, drafts: usize) -> Arc<Cache> {
    let groups = groups(window);
    Cache::new(&groups, format, CacheSize::chat(context, &groups).with_drafts(drafts))
}

#[test]
fn a_borrower_has_the_size_of_its_source_before_any_padding() {
    for context in [1, 100, PAGE, PAGE + 1, 1000] {
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            let source = cache(context, None, format, 1);
            let borrower = Cache::borrowing(&source, &[0]).expect("a layer of the source");
            assert_eq!((borrower.context(), borrower.format()), (context, format));
            let mut target = Sequence::new(&source);
            target.append(&vec![1; context]).expect("the whole context");
            let mut draft = target.borrowed_by(&borrower).expect("its source");
            let expected = CacheError::ContextFull {
                tokens: context + 1,
                context,
            };
            assert_eq!(draft.append(&[2]), Err(expected), "padding is no room");
        }
    }
}

#[test]
fn a_draft_that_is_created_after_its_target_was_filled_leaves_it_intact() {
    for window in [None, Some(40)] {
        let source = cache(1024, window, KvFormat::F16, 1);
        let mut target = Sequence::new(&source);
        (0..5).for_each(|_| target.append(&[7; 200]).expect("room"));
        let (ids, free) = (target.ids().to_vec(), source.free_pages());
        let cells = |target: &Sequence| target.cells(0, 0..1000).collect::<Vec<_>>();
        let before = cells(&target);
        let borrower = Cache::borrowing(&source, &[0, 1]).expect("layers of the source");
        let mut draft = target.borrowed_by(&borrower).expect("its source");
        draft.append(&[8; 24]).expect("a draft's pages");
        assert!(draft.append(&[8]).is_err(), "the context ends");
        drop(draft);
        assert_eq!((target.ids(), source.free_pages()), (&*ids, free));
        assert_eq!(cells(&target), before);
        target.append(&[9; 24]).expect("the target's own room");
    }
}

#[test]
fn the_plan_has_pages_for_a_draft_at_the_end_of_a_context() {
    for window in [None, Some(40)] {
        for context in [PAGE * 3, PAGE * 3 + 1, 600, 1000] {
            let source = cache(context, window, KvFormat::F16, 1);
            let borrower = Cache::borrowing(&source, &[0, 1]).expect("layers of the source");
            let mut target = Sequence::new(&source);
            while target.len() < context {
                let room = MAX_DRAFTED.min(context - target.len());
                let mut draft = target.borrowed_by(&borrower).expect("its source");
                for _ in 0..room {
                    draft
                        .append(&[3])
                        .unwrap_or_else(|error| panic!("{error} at {}", draft.len()));
                }
                drop(draft);
                target.append(&vec![4; room.min(17)]).expect("room");
            }
        }
    }
}

/// Layers with a window can be truncated after any draft without a snapshot: a step releases only
/// positions behind the window of its first row.
#[test]
fn rows_that_were_not_accepted_are_taken_back_in_windowed_layers() {
    for window in [1, 8, 40, 128, 200] {
        let groups = groups(Some(window));
        let cache = Cache::new(&groups, KvFormat::F16, CacheSize::chat(2000, &groups));
        let mut sequence = Sequence::new(&cache);
        // A linear congruential generator.
        let mut random = 1_u32;
        while sequence.len() + MAX_DRAFTED < 2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (drafted, length) = ((random >> 16) as usize % (MAX_DRAFTED + 1), sequence.len());
            sequence.append(&vec![5; 1 + drafted]).expect("room");
            let accepted = (random >> 8) as usize % (drafted + 1);
            assert!(
                sequence.truncate(length + 1 + accepted),
                "window {window}, position {length}"
            );
        }
    }
}

#[test]
fn other_sequences_leave_a_draft_its_pages() {
    let source = cache(PAGE * 4, None, KvFormat::F16, 1);
    let borrower = Cache::borrowing(&source, &[0, 1]).expect("layers of the source");
    let mut target = Sequence::new(&source);
    target.append(&[1; 10]).expect("room");
    let mut others = Vec::new();
    loop {
        let mut other = Sequence::new(&source);
        let has_room = other.has_room(5);
        assert_eq!(other.append(&[2; 5]).is_ok(), has_room);
        if !has_room {
            break;
        }
        others.push(other);
    }
    assert_eq!(others.len(), 3);
    let mut draft = target.borrowed_by(&borrower).expect("its source");
    draft.append(&[3; MAX_DRAFTED]).expect("the pages of a draft");
    assert!(target.append(&[1; PAGE]).is_err(), "the target cannot take them");
}
