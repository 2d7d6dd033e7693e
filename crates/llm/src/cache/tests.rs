//! Compares the cache with a naive reference, a list of tokens per sequence. Each cell that the
//! next token attends to must have the values that were written for its token and position.

use super::*;
use hearth_kernels::attention::{Heads, KvLayer, PAGE};
use proptest::prelude::*;
use std::collections::BTreeSet;

const CONTEXT: usize = 700;
const STEP: usize = 150;
const WINDOWS: [Option<usize>; 3] = [None, Some(40), Some(200)];

fn groups() -> Vec<LayerGroup> {
    let group = |(index, window): (usize, Option<usize>)| LayerGroup {
        // Layers of different groups alternate.
        layers: vec![index, index + WINDOWS.len()],
        kv_heads: 1,
        head_dim: 2,
        window,
    };
    WINDOWS.into_iter().enumerate().map(group).collect()
}

fn cache(sequences: usize) -> Arc<Cache> {
    let size = CacheSize {
        context: CONTEXT,
        sequences,
        snapshots: 0,
        step: STEP,
        drafts: 0,
    };
    Cache::new(&groups(), KvFormat::F16, size)
}

/// The key and the value that a layer writes for a token, exact in f16.
fn value(layer: usize, id: u32, position: usize) -> [f32; 2] {
    [id as f32, (position + 1000 * (layer % 2)) as f32]
}

/// Writes the cells of the last `count` tokens in all layers, as a step does.
fn write(sequence: &Sequence, count: usize) {
    let heads = Heads {
        heads: 1,
        kv_heads: 1,
        head_dim: 2,
        scale: 1.0,
        softcap: None,
        window: None,
    };
    let cache = sequence.cache();
    for layer in 0..cache.layers() {
        let group = cache.group_of(layer).expect("a layer");
        let positions = sequence.len() - count..sequence.len();
        let cells: Vec<u32> = sequence.cells(group, positions.clone()).collect();
        let row = |position: usize| {
            let [first, second] = value(layer, sequence.ids()[position], position);
            // Q, K and V.
            [0.0, 0.0, first, second, first, second]
        };
        let rows: Vec<f32> = positions.flat_map(row).collect();
        let layer_cells = cache.cells(layer).expect("a layer");
        layer_cells.cpu().write(&heads, &cells, &rows).expect("its cells");
    }
}

/// The key in a cell.
fn key(cache: &Cache, layer: usize, cell: u32) -> [f32; 2] {
    let cells = cache.cells(layer).expect("a layer").cpu();
    let (tile, lane) = (cell as usize / KvLayer::TILE, cell as usize % KvLayer::TILE);
    let keys = cells.tiles(tile..tile + 1).expect("a tile")[0];
    let element = |i: usize| half::f16::from_ne_bytes([keys[2 * i], keys[2 * i + 1]]).to_f32();
    [element(lane), element(KvLayer::TILE + lane)]
}

/// Checks all cells that the next token attends to.
fn check(sequence: &Sequence) {
    let cache = sequence.cache();
    for layer in 0..cache.layers() {
        let group = cache.group_of(layer).expect("a layer");
        let window = cache.groups[group].shape.window.unwrap_or(usize::MAX);
        for position in (sequence.len() + 1).saturating_sub(window)..sequence.len() {
            let cell = sequence.cells(group, position..position + 1).next().expect("a cell");
            let expected = value(layer, sequence.ids()[position], position);
            assert_eq!(key(cache, layer, cell), expected, "layer {layer}, position {position}");
        }
    }
}

/// Checks that each page is free or has an owner.
fn check_pages<'a>(cache: &Cache, sequences: impl Iterator<Item = &'a Sequence> + Clone) {
    for (group, [free, all]) in cache.free_pages().into_iter().enumerate() {
        let pages = sequences.clone().flat_map(|sequence| sequence.tables[group].pages());
        let owned: BTreeSet<u32> = pages.copied().collect();
        assert_eq!(free + owned.len(), all, "group {group}");
        assert!(owned.last().is_none_or(|page| (*page as usize) < all));
    }
}

/// A change of one of the sequences, whose index is `sequence` modulo their number.
#[derive(Debug, Clone)]
enum Action {
    Append {
        sequence: usize,
        count: usize,
        id: u32,
    },
    Truncate {
        sequence: usize,
        length: usize,
    },
    /// As for a snapshot.
    Fork {
        sequence: usize,
    },
    Drop {
        sequence: usize,
    },
    Clear {
        sequence: usize,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let sequence = 0_usize..6;
    let append = (sequence.clone(), 0..=STEP, 0_u32..1000);
    prop_oneof![
        5 => append.prop_map(|(sequence, count, id)| Action::Append { sequence, count, id }),
        3 => (sequence.clone(), 0..CONTEXT).prop_map(|(sequence, length)| Action::Truncate { sequence, length }),
        2 => sequence.clone().prop_map(|sequence| Action::Fork { sequence }),
        1 => sequence.clone().prop_map(|sequence| Action::Drop { sequence }),
        1 => sequence.prop_map(|sequence| Action::Clear { sequence }),
    ]
}

/// A sequence, and the tokens that it must have.
#[derive(Clone)]
struct Case {
    sequence: Sequence,
    expected_ids: Vec<u32>,
}

impl Case {
    fn new(cache: &Arc<Cache>) -> Self {
        Self {
            sequence: Sequence::new(cache),
            expected_ids: Vec::new(),
        }
    }

    /// Appends `count` tokens from `id` on. If the cache refuses them, checks the reason, and that
    /// the pages are unchanged.
    fn append(&mut self, count: usize, id: u32) {
        let ids: Vec<u32> = (0..count as u32).map(|i| (id + i) % 1000).collect();
        let has_room = self.sequence.has_room(self.expected_ids.len() + count);
        let pages = |sequence: &Sequence| {
            let table_pages = |table: &page_table::PageTable| (table.first(), table.pages().to_vec());
            sequence.tables.iter().map(table_pages).collect::<Vec<_>>()
        };
        let before = pages(&self.sequence);
        match self.sequence.append(&ids) {
            Ok(()) => {
                self.expected_ids.extend(&ids);
                write(&self.sequence, count);
                return;
            }
            Err(CacheError::ContextFull { tokens, .. }) => assert!(tokens > CONTEXT),
            Err(error) => assert!(matches!(error, CacheError::CacheFull { .. }) && !has_room, "{error}"),
        }
        assert_eq!(pages(&self.sequence), before);
    }

    /// Truncates the sequence. If the cache refuses it, checks that pages of a window were
    /// released.
    fn truncate(&mut self, length: usize) {
        let before = self.sequence.clone();
        if self.sequence.truncate(length) {
            self.expected_ids.truncate(length)
        } else {
            let has_released = |(table, window): (&page_table::PageTable, Option<usize>)| {
                window.is_some_and(|window| table.first() * PAGE > (length + 1).saturating_sub(window))
            };
            assert!(before.tables.iter().zip(WINDOWS).any(has_released));
        }
    }

    fn clear(&mut self) {
        self.sequence.clear();
        self.expected_ids.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn cells_have_the_values_of_their_tokens(actions in prop::collection::vec(action(), 1..40)) {
        let cache = cache(2);
        let mut cases = vec![Case::new(&cache)];
        for action in actions {
            let existing = cases.len();
            match action {
                Action::Append { sequence, count, id } => cases[sequence % existing].append(count, id),
                Action::Truncate { sequence, length } => cases[sequence % existing].truncate(length),
                Action::Fork { sequence } => {
                    let fork = cases[sequence % existing].clone();
                    cases.push(fork);
                }
                Action::Drop { sequence } if existing > 1 => {
                    cases.swap_remove(sequence % existing);
                }
                Action::Drop { .. } => {}
                Action::Clear { sequence } => cases[sequence % existing].clear(),
            }
            for Case { sequence, expected_ids } in &cases {
                prop_assert_eq!(sequence.ids(), expected_ids);
                check(sequence);
            }
            check_pages(&cache, cases.iter().map(|case| &case.sequence));
        }
        drop(cases);
        prop_assert!(cache.free_pages().into_iter().all(|[free, all]| free == all), "a page leaked");
    }
}

/// Grows a sequence to `length` in steps of `step`.
fn grow(sequence: &mut Sequence, length: usize, step: usize) {
    while sequence.len() < length {
        let count = step.min(length - sequence.len());
        let ids: Vec<u32> = (sequence.len()..sequence.len() + count).map(|id| id as u32).collect();
        sequence.append(&ids).expect("room");
        write(sequence, count);
    }
}

#[test]
fn windowed_groups_have_the_pages_that_the_plan_computed() {
    let cache = cache(1);
    let mut sequence = Sequence::new(&cache);
    // 700 positions without a window. With one: window + 16 + 150 positions, and one page more.
    assert_eq!(cache.free_pages(), [[6, 6], [3, 3], [4, 4]]);
    let mut max_used = [0; 3];
    for step in [STEP, 1, 7, 128] {
        sequence.clear();
        while sequence.len() + step <= CONTEXT {
            let length = sequence.len() + step;
            grow(&mut sequence, length, step);
            check(&sequence);
            for (max, [free, all]) in max_used.iter_mut().zip(cache.free_pages()) {
                *max = all.saturating_sub(free).max(*max);
            }
        }
    }
    let [full, short, long] = max_used;
    assert!(full == 6 && short <= 3 && long <= 4, "{max_used:?}");
}

/// Gemma 3 1B: of 26 layers, every sixth has full attention, the others have a window of 512.
#[test]
fn gemmas_cache_shrinks_as_computed() {
    let group = |is_full: bool| LayerGroup {
        layers: (0..26).filter(|layer| (layer % 6 == 5) == is_full).collect(),
        kv_heads: 1,
        head_dim: 256,
        window: (!is_full).then_some(512),
    };
    let groups = [group(false), group(true)];
    let page_bytes = PAGE * 256 * 2 * size_of::<u16>();
    // With a window: 10 pages for 512 + 16 positions and a step of 512, and 6 for each of two
    // snapshots. Without: 64 or 256 pages for the context, and two copies of its last page.
    for (context, local, full) in [(8192, 10 + 2 * 6, 64 + 2), (32_768, 10 + 2 * 6, 256 + 2)] {
        let size = CacheSize::chat(context, &groups);
        let bytes = |group: &LayerGroup| group.layers.len() * group.cpu_bytes(KvFormat::F16, &size);
        assert_eq!(
            groups.each_ref().map(bytes),
            [22 * local * page_bytes, 4 * full * page_bytes]
        );
        let cache = Cache::new(&groups, KvFormat::F16, size);
        assert_eq!(cache.free_pages(), [[local; 2], [full; 2]]);
    }
}

#[test]
fn a_failed_copy_of_a_shared_page_changes_nothing() {
    let cache = cache(2);
    let mut sequence = Sequence::new(&cache);
    grow(&mut sequence, 100, 100);
    let fork = sequence.clone();
    let (table, free) = (&mut sequence.tables[0], cache.free_pages());
    let before = table.pages().to_vec();
    let error = CacheError::NoSuchPage { page: 9, pages: 1 };
    assert_eq!(table.make_writable(100, 400, |_| Err(error)), Err(error));
    assert_eq!((table.pages(), cache.free_pages()), (&*before, free));
    grow(&mut sequence, 400, 100);
    check(&sequence);
    check(&fork);
}

#[test]
fn a_longer_step_than_planned_is_refused() {
    let mut sequence = Sequence::new(&cache(1));
    let expected = Err(CacheError::LongStep {
        tokens: STEP + 1,
        step: STEP,
    });
    assert_eq!(sequence.append(&[0; STEP + 1]), expected);
    assert!(sequence.is_empty());
}

#[test]
fn a_snapshot_restores_positions_behind_a_window() {
    let cache = cache(2);
    let mut sequence = Sequence::new(&cache);
    grow(&mut sequence, 300, 100);
    let snapshot = sequence.clone();
    grow(&mut sequence, 600, 100);
    assert!(!sequence.can_truncate(300) && !sequence.clone().truncate(300));
    // A tile of tokens can be removed without a snapshot.
    assert!(sequence.can_truncate(600 - KvLayer::TILE));
    sequence = snapshot;
    check(&sequence);
    grow(&mut sequence, 700, 50);
    check(&sequence);
}

#[test]
fn a_borrower_reads_its_sources_cells_and_never_changes_them() {
    let source = cache(2);
    let draft = Cache::borrowing(&source, &[0, 1, 2]).expect("layers of the source");
    // A cache that borrows from a borrower, with the layers in another order.
    let second = Cache::borrowing(&draft, &[2, 0]).expect("layers of the draft");
    assert_eq!([draft.context(), second.context()], [CONTEXT; 2]);
    assert!(matches!(
        Cache::borrowing(&draft, &[3]),
        Err(CacheError::NoSuchLayer { layer: 3, layers: 3 })
    ));
    let mut target = Sequence::new(&source);
    grow(&mut target, 200, 100);
    let mut draft_sequence = target.borrowed_by(&draft).expect("a cache that borrows from it");
    check(&draft_sequence);
    draft_sequence.append(&[7; 30]).expect("room");
    write(&draft_sequence, 30);
    let chained = draft_sequence
        .borrowed_by(&second)
        .expect("a cache that borrows from it");
    assert_eq!(chained.ids(), draft_sequence.ids());
    let cell = |sequence: &Sequence, group: usize| sequence.cells(group, 210..211).next();
    // Layer 0 of `second` is layer 2 of `draft`, which is in the third group of `draft`.
    assert_eq!(
        [cell(&chained, 0), cell(&chained, 1)],
        [cell(&draft_sequence, 2), cell(&draft_sequence, 0)]
    );
    assert_eq!(target.borrowed_by(&second).err(), Some(CacheError::OtherCache));
    check(&target);
    grow(&mut target, 400, 100);
    check(&target);
    check(&draft_sequence);
    // The draft appends until no page is free. It never takes a page of the target.
    while draft_sequence.append(&[1; 50]).is_ok() {
        write(&draft_sequence, 50);
    }
    check(&target);
    drop((target, draft_sequence, chained));
    assert!(source.free_pages().into_iter().all(|[free, all]| free == all));
}
