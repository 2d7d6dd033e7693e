//! Selects the parts of large test products that a run executes.
//!
//! A product is a long list of similar cases, such as a fault at each disk operation.
//! `cargo xtask test` runs some of its parts (`xtask/src/suites`); without it, all cases run. A
//! case belongs to exactly one part, which follows from its index.
//!
//! Environment variables, both set by `cargo xtask test`:
//! - `HEARTH_PART_FAULTS=2,4/4` selects parts 2 and 4 of four of the product `faults`;
//! - `HEARTH_CASES` names a folder in which each process lists the cases that it ran and left out.
//!
//! It also finds test files that no executable compiles, and modules that import each other.

mod imports;
mod modules;

pub use imports::assert_no_cycles;
pub use modules::assert_all_compiled;

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process;
use std::sync::Mutex;

/// The environment variable that names the folder for lists of cases.
pub const CASES: &str = "HEARTH_CASES";

/// The environment variable that selects parts of `product`.
#[must_use]
pub fn variable(product: &str) -> String {
    format!("HEARTH_PART_{}", product.to_uppercase())
}

/// The parts of one product that this process runs.
#[derive(Debug)]
pub struct Parts {
    product: &'static str,
    /// Numbers from 1; empty for all.
    selected: Vec<usize>,
    /// Number of parts.
    of: usize,
    /// The list of cases, if it is wanted.
    list: Option<Mutex<File>>,
}

impl Parts {
    /// The parts of `product` (lower-case letters) that the environment selects.
    ///
    /// # Panics
    /// If a variable is malformed or the list cannot be written: a test must not pass by running
    /// nothing.
    #[must_use]
    pub fn from_variable(product: &'static str) -> Self {
        let name = variable(product);
        let value = match env::var(&name) {
            Ok(value) => Some(value),
            Err(env::VarError::NotPresent) => None,
            Err(error) => panic!("{name}: {error}"),
        };
        let folder = env::var_os(CASES);
        Self::selected(product, value.as_deref(), folder.as_ref().map(Path::new))
            .unwrap_or_else(|problem| panic!("{name}: {problem}"))
    }

    /// The parts of `product` that `value`, such as `2,4/4`, selects; `None` selects all. Cases are
    /// listed in `folder`.
    ///
    /// # Errors
    /// If `value` is malformed or selects a part that does not exist.
    ///
    /// # Panics
    /// If the list cannot be written.
    pub fn selected(product: &'static str, value: Option<&str>, folder: Option<&Path>) -> Result<Self, String> {
        let (selected, of) = match value {
            Some(value) => parse(value).ok_or_else(|| format!("`{value}` is not parts such as 2,4/4"))?,
            None => (Vec::new(), 1),
        };
        Ok(Self {
            product,
            selected,
            of,
            list: folder.map(|folder| Mutex::new(list(folder, product))),
        })
    }

    /// Whether this run includes the case with this index, which is listed as run or left out.
    ///
    /// # Panics
    /// If the list cannot be written.
    #[must_use]
    pub fn includes(&self, index: usize, case: &str) -> bool {
        let part = index % self.of + 1;
        let included = self.selected.is_empty() || self.selected.contains(&part);
        let verb = if included { "ran" } else { "left" };
        self.write(&format!("{verb} {part}/{} {} {case}\n", self.of, self.product));
        included
    }

    /// As [`Parts::includes`], but every run includes the case if `always` holds.
    ///
    /// # Panics
    /// If the list cannot be written.
    #[must_use]
    pub fn includes_or(&self, always: bool, index: usize, case: &str) -> bool {
        if always {
            self.always(case);
        }
        always || self.includes(index, case)
    }

    /// Lists a case of the product that every run includes.
    ///
    /// # Panics
    /// If the list cannot be written.
    pub fn always(&self, case: &str) {
        self.write(&format!("ran always {} {case}\n", self.product));
    }

    /// Adds a line to the list of cases, if it is wanted.
    fn write(&self, line: &str) {
        if let Some(list) = &self.list {
            // One write, so that lines of threads are not mixed.
            let mut file = list.lock().expect("no panic while a line is written");
            file.write_all(line.as_bytes()).expect("the list of cases is written");
        }
    }
}

/// Parses `2,4/4`.
fn parse(value: &str) -> Option<(Vec<usize>, usize)> {
    let (selected, of) = value.split_once('/')?;
    let of: usize = of.parse().ok().filter(|&of| of > 0)?;
    let selected: Option<Vec<usize>> = selected
        .split(',')
        .map(|part| part.parse().ok().filter(|part| (1..=of).contains(part)))
        .collect();
    Some((selected.filter(|parts| !parts.is_empty())?, of))
}

fn list(folder: &Path, product: &str) -> File {
    fs::create_dir_all(folder).expect("the folder of the lists of cases");
    let file = folder.join(format!("{product}-{}.txt", process::id()));
    let options = OpenOptions::new().create(true).append(true).open(&file);
    options.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::{Parts, parse};

    #[test]
    fn selections_are_parsed_or_refused() {
        assert_eq!(parse("2/4"), Some((vec![2], 4)));
        assert_eq!(parse("1,3/4"), Some((vec![1, 3], 4)));
        for wrong in ["", "2", "/4", "0/4", "5/4", "1,/4", "1/0", "x/4", "1/4 "] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_case_is_in_one_part() {
        let part = |number| Parts {
            product: "test",
            selected: vec![number],
            of: 4,
            list: None,
        };
        for index in 0..13 {
            let parts = (1..=4).filter(|&number| part(number).includes(index, "case"));
            assert_eq!(parts.count(), 1, "{index}");
        }
    }
}
