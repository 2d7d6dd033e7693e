//! The arguments of a call, by place or by name as in Python.

use super::budget;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};

/// What was given to a filter, a function or a method.
pub(super) struct Arguments {
    positional: Vec<Value>,
    named: Kwargs,
}

/// What was wrong with a call.
pub(super) fn fail(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

impl Arguments {
    /// Sorts the arguments of a call.
    pub fn new(mut positional: Vec<Value>) -> Result<Self, Error> {
        let named = match positional.pop_if(|last| last.is_kwargs()) {
            Some(named) => Kwargs::try_from(named)?,
            None => Kwargs::from_iter(std::iter::empty::<(String, Value)>()),
        };
        Ok(Self { positional, named })
    }

    /// The arguments of a filter: its value first.
    pub fn of_filter(arguments: Rest<ValueOrKwargs>) -> Result<(Value, Self), Error> {
        let mut arguments = Self::new(arguments.into_values())?;
        if arguments.positional.is_empty() {
            return Err(Error::from(ErrorKind::MissingArgument));
        }
        let value = arguments.positional.remove(0);
        Ok((value, arguments))
    }

    /// The argument at a place or under a name.
    pub fn get(&self, place: usize, name: &str) -> Result<Option<Value>, Error> {
        match self.positional.get(place) {
            Some(value) => Ok(Some(value.clone())),
            None if self.named.has(name) => self.named.get(name).map(Some),
            None => Ok(None),
        }
    }

    /// An argument that must be there.
    pub fn need(&self, place: usize, name: &str) -> Result<Value, Error> {
        self.get(place, name)?
            .ok_or_else(|| Error::new(ErrorKind::MissingArgument, format!("`{name}` is missing")))
    }

    /// A text that must be there.
    pub fn text(&self, place: usize, name: &str) -> Result<String, Error> {
        text(&self.need(place, name)?, name)
    }

    /// A text, or nothing where it is left out or none.
    pub fn optional_text(&self, place: usize, name: &str) -> Result<Option<String>, Error> {
        let given = self.get(place, name)?.filter(|value| !value.is_none());
        given.map(|value| text(&value, name)).transpose()
    }

    /// An integer, or nothing where it is left out or none.
    pub fn integer(&self, place: usize, name: &str) -> Result<Option<i64>, Error> {
        let given = self.get(place, name)?.filter(|value| !value.is_none());
        let integer = given.map(|value| match value.kind() {
            ValueKind::Bool => Ok(i64::from(value.is_true())),
            _ => value.as_i64().ok_or_else(|| fail(format!("`{name}` is no integer"))),
        });
        integer.transpose()
    }

    /// Whether something was asked for.
    pub fn flag(&self, place: usize, name: &str) -> Result<Option<bool>, Error> {
        Ok(self.get(place, name)?.map(|value| value.is_true()))
    }

    /// The arguments by place.
    pub fn positional(&self) -> &[Value] {
        &self.positional
    }

    /// Refuses more arguments than these, and names that were not asked for.
    pub fn done(&self, most: usize) -> Result<(), Error> {
        if self.positional.len() > most {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        self.named.assert_all_used()
    }
}

fn text(value: &Value, name: &str) -> Result<String, Error> {
    let text = value.as_str().filter(|_| value.kind() == ValueKind::String);
    budget::spend(text.map_or(0, budget::length))?;
    text.map(str::to_owned)
        .ok_or_else(|| fail(format!("`{name}` is no text")))
}
