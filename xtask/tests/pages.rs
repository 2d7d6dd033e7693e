//! Files and tests that pages name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages that name files and tests as evidence.
const PAGES: [&str; 7] = [
    "docs/SAFETY.md",
    "docs/ARCHITECTURE.md",
    "docs/INFERENCE.md",
    "docs/RECIPES.md",
    "docs/TESTING.md",
    "CONTRIBUTING.md",
    "ui/README.md",
];

/// Folders of build outputs and of what git does not track.
const SKIPPED: [&str; 7] = ["target", "node_modules", ".git", "dist", ".messages", ".pseudo", "gen"];

/// Files that a build or a run makes.
const MADE: [&str; 5] = ["target/", "bench/env/", "models/", "report.txt", "devices.json"];

/// Endings of files that pages name.
const ENDINGS: [&str; 11] = [
    "rs", "ts", "mjs", "svelte", "toml", "md", "py", "css", "json", "txt", "yml",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Paths from the root, with `/`, of all files and folders.
fn walk(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.map(|entry| entry.expect("an entry of a folder")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{path}/"), found);
            }
            found.insert(format!("{path}/"));
        }
        found.insert(path);
    }
}

/// Words in code style on a page.
fn code(page: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            words.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    words
}

/// Whether a word names a file: a path, or a name with the ending of one.
fn is_file(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-*".contains(c));
    let ending = Path::new(word)
        .extension()
        .is_some_and(|ending| ENDINGS.iter().any(|name| ending == *name));
    let folder = word.contains('/') && word.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '.');
    plain && (ending || folder) && !MADE.iter().any(|made| word.starts_with(made))
}

/// Whether `path` matches `pattern`, in which `*` matches any characters except `/`.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(end, _)| end).chain([rest.len()]);
            ends.take_while(|&end| !rest[..end].contains('/'))
                .any(|end| matches(after, &rest[end..]))
        }),
    }
}

/// Whether a path, or its end after some `/`, matches this word: pages omit parent folders.
fn exists(word: &str, files: &BTreeSet<String>) -> bool {
    let word = word.trim_start_matches("./");
    files.iter().any(|path| {
        let starts = path.match_indices('/').map(|(slash, _)| slash + 1);
        std::iter::once(0)
            .chain(starts)
            .any(|start| matches(word, &path[start..]))
    })
}

/// Whether a word names a test: a long identifier.
fn is_test(word: &str) -> bool {
    word.matches('_').count() >= 3
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn files_and_tests_named_on_pages_exist() {
    let root = root();
    let mut files = BTreeSet::new();
    walk(&root, "", &mut files);
    let sources = files
        .iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".ts") || path.ends_with(".py"));
    let text: String = sources
        .filter_map(|path| fs::read_to_string(root.join(path)).ok())
        .collect();
    let mut missing = Vec::new();
    let mut checked = 0;
    for page in PAGES {
        let words = code(&fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}")));
        for word in words {
            let is_missing = if is_file(&word) {
                !exists(&word, &files)
            } else if is_test(&word) {
                !text.contains(&word)
            } else {
                continue;
            };
            checked += 1;
            if is_missing {
                missing.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(checked > 100, "only {checked} names were found");
    assert!(
        missing.is_empty(),
        "these pages name what does not exist:\n{}",
        missing.join("\n")
    );
}

/// Targets of relative links on a page, without their anchors.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains('\n'));
    files.filter_map(|target| target.split('#').next()).collect()
}

#[test]
fn links_on_pages_lead_to_files() {
    let root = root();
    let mut files = BTreeSet::new();
    walk(&root, "", &mut files);
    let pages = files
        .iter()
        .filter(|path| path.ends_with(".md") && !path.contains("fixtures/") && !path.starts_with("bench/cache/"));
    let (mut broken, mut checked) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        let folder = root.join(page).parent().expect("the root at least").to_owned();
        for target in links(&text) {
            checked += 1;
            if !folder.join(target).exists() {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(checked > 200, "only {checked} links were found");
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_list_of_cases_exists() {
    let folder = root().join("tests").join("cases");
    for list in ["rust", "ui", "axe", "faults", "fuzz", "gpu", "levels", "removed"] {
        let text = fs::read_to_string(folder.join(format!("{list}.txt"))).unwrap_or_default();
        assert!(
            text.lines().count() > 8,
            "tests/cases/{list}.txt: run `cargo xtask test --complete`, then `cargo xtask cases`"
        );
    }
}

#[test]
fn names_are_recognized() {
    assert!(is_file("tests/tests/window*.rs") && is_file("kernels/src/isa.rs") && is_file("link_queue.rs"));
    assert!(!is_file("cargo xtask test") && !is_file("a/b?c") && !is_file("avx512") && !is_file("target/release"));
    assert!(is_test("a_token_is_written_nowhere") && !is_test("copy_file_range") && !is_test("HEARTH_NO_GPU_TESTS"));
    assert!(matches("a/*.rs", "a/b.rs") && !matches("a/*.rs", "a/b/c.rs") && !matches("a*", "b"));
    let files = BTreeSet::from(["crates/app/src/link.rs".to_owned()]);
    assert!(exists("link.rs", &files) && exists("app/src/*.rs", &files) && !exists("app/link.rs", &files));
}
