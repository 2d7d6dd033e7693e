//! Finds modules of a crate that import each other.
//!
//! The nodes are the modules directly in the crate, each with its submodules: a folder and its
//! files may import each other, since they are one thing. Paths that begin with `crate::`, or that
//! lead to the root by `super::`, are edges, and so are the names that `lib.rs` exports. Tests are
//! left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// For each module, the modules that it imports, each with the files that do.
type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Asserts that the modules of a package's library do not import each other in a cycle. Called with
/// `env!("CARGO_MANIFEST_DIR")` by a test of the package.
///
/// # Panics
/// If there is a cycle, or a file cannot be read. The message names the imports of the cycles, and
/// of modules between two cycles.
pub fn assert_no_cycles(package: impl AsRef<Path>) {
    let source = package.as_ref().join("src");
    let mut files = Vec::new();
    collect(&source, &mut Vec::new(), &mut files);
    let cycles = cycles(&files);
    assert!(
        cycles.is_empty(),
        "these modules import each other:\n{}",
        cycles.join("\n")
    );
}

/// A source file: the path of its module, its path in `src`, and its text.
struct File {
    module: Vec<String>,
    path: String,
    text: String,
}

/// Reads the Rust files of a folder, except tests.
fn collect(folder: &Path, module: &mut Vec<String>, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            module.push(name);
            collect(&path, module, files);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let is_folder = ["mod", "lib", "main"].contains(&name.as_str());
            let own = (!is_folder).then(|| name.clone());
            files.push(File {
                module: module.iter().cloned().chain(own).collect(),
                path: module.iter().cloned().chain([name]).collect::<Vec<_>>().join("/"),
                text: code(&text),
            });
        }
    }
}

/// The text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test = line.starts_with("#[cfg(") && line.contains("test");
        if is_test
            && lines
                .peek()
                .is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'))
        {
            break;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// The imports of each cycle, as lines.
fn cycles(files: &[File]) -> Vec<String> {
    let mut graph = graph(files);
    // A module that imports no other, or that no other imports, is in no cycle.
    loop {
        let imported: BTreeSet<String> = graph.values().flat_map(|imports| imports.keys().cloned()).collect();
        let before = graph.len();
        graph.retain(|module, imports| !imports.is_empty() && imported.contains(module));
        let left: BTreeSet<String> = graph.keys().cloned().collect();
        for imports in graph.values_mut() {
            imports.retain(|module, _| left.contains(module));
        }
        if graph.len() == before {
            break;
        }
    }
    let lines = graph.into_iter().flat_map(|(module, imports)| {
        let line = move |(imported, files): (String, BTreeSet<String>)| {
            let files: Vec<String> = files.into_iter().collect();
            format!("{module} imports {imported} in {}", files.join(", "))
        };
        imports.into_iter().map(line)
    });
    lines.collect()
}

fn graph(files: &[File]) -> Graph {
    let modules: BTreeSet<&String> = files.iter().filter_map(|file| file.module.first()).collect();
    let root = files.iter().filter(|file| file.module.is_empty());
    let exports: BTreeMap<String, String> = root.flat_map(|file| exports(&file.text)).collect();
    let mut graph = Graph::new();
    for file in files {
        let Some(module) = file.module.first() else { continue };
        let imports = graph.entry(module.clone()).or_default();
        for name in names_at_root(&file.text, file.module.len()) {
            let imported = exports.get(&name).unwrap_or(&name);
            if modules.contains(imported) && imported != module {
                imports.entry(imported.clone()).or_default().insert(file.path.clone());
            }
        }
    }
    graph
}

/// The names that a root exports with `pub use`, and the modules that they are from.
fn exports(root: &str) -> Vec<(String, String)> {
    let mut exports = Vec::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.split_once("use ") else {
            continue;
        };
        let Some((module, names)) = path.trim().split_once("::") else {
            continue;
        };
        let words = names
            .split(|letter: char| !is_of_name(letter))
            .filter(|word| !word.is_empty());
        exports.extend(words.map(|name| (name.to_owned(), module.to_owned())));
    }
    exports
}

/// The first names of paths at the root of the crate, in a module at this depth.
fn names_at_root(text: &str, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let up = "super::".repeat(depth);
    for prefix in ["crate::", up.as_str()] {
        for (index, _) in text.match_indices(prefix) {
            let before = text[..index].chars().next_back();
            // Part of a longer path or name: `super::super::` in a module of depth one.
            if !before.is_some_and(|letter| is_of_name(letter) || letter == ':' || letter == '$') {
                names.extend(first_names(&text[index + prefix.len()..]));
            }
        }
    }
    names
}

/// The first name of a path, or the first names of a group of paths in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |path: &str| -> String { path.trim_start().chars().take_while(|c| is_of_name(*c)).collect() };
    let Some(group) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let (mut names, mut depth) = (vec![name(group)], 1);
    for (index, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(&group[index + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::{File, code, cycles, first_names};

    /// The cycles of a crate with these files.
    fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| {
            let parts = path.split('/').map(str::to_owned);
            File {
                module: parts.filter(|part| !["lib", "mod"].contains(&part.as_str())).collect(),
                path: (*path).to_owned(),
                text: code(text),
            }
        };
        cycles(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn a_cycle_is_found_through_folders_groups_and_exports() {
        let files = [
            ("lib", "mod a;\nmod b;\nmod c;\nmod leaf;\npub use c::{Other, Thing};\n"),
            ("a/mod", "mod inner;\nuse crate::{leaf, b::{One, Two}};\n"),
            ("a/inner", "use super::super::leaf;\n"),
            ("b", "use super::Thing;\n"),
            ("c", "fn f() { crate::a::inner::g() }\n"),
            ("leaf", "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
        ];
        let expected = ["a imports b in a/mod", "b imports c in b", "c imports a in c"];
        assert_eq!(cycles_of(&files), expected);
    }

    #[test]
    fn modules_around_a_cycle_are_not_in_it() {
        let files = [
            ("lib", "mod a;\nmod b;\nmod first;\nmod last;\n"),
            ("first", "use crate::a;\n"),
            ("a", "use crate::b;\n"),
            ("b", "use crate::{\n    a,\n    last,\n};\n"),
            ("last", ""),
        ];
        assert_eq!(cycles_of(&files), ["a imports b in a", "b imports a in b"]);
        assert_eq!(cycles_of(&files[..3]), [""; 0]);
    }

    #[test]
    fn a_folder_and_its_files_may_import_each_other() {
        let files = [
            ("lib", "mod a;\n"),
            ("a/mod", "mod one;\nuse one::One;\n"),
            ("a/one", "use super::Two;\nuse crate::a::Three;\n"),
        ];
        assert_eq!(cycles_of(&files), [""; 0]);
    }

    #[test]
    fn the_first_names_of_a_group_are_those_at_its_top() {
        assert_eq!(first_names("a::b::C;"), ["a"]);
        assert_eq!(first_names("{a::{b, c}, d, e::f};\nuse g;"), ["a", "d", "e"]);
        assert_eq!(first_names("{\n    a,\n    b,\n};"), ["a", "b", ""]);
    }
}
