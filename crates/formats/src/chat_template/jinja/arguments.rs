//! Positional and keyword arguments of a call, as in Python.

use super::budget;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};

/// The arguments of a filter, a function or a method.
pub(super) struct Arguments {
    positional: Vec<Value>,
    named: Kwargs,
}

/// An `InvalidOperation` error with this message.
pub(super) fn fail(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

impl Arguments {
    /// Separates positional from keyword arguments.
    pub fn new(mut positional: Vec<Value>) -> Result<Self, Error> {
        let named = match positional.pop_if(|last| last.is_kwargs()) {
            Some(named) => Kwargs::try_from(named)?,
            None => Kwargs::from_iter(std::iter::empty::<(String, Value)>()),
        };
        Ok(Self { positional, named })
    }

    /// The filtered value and the arguments of a filter.
    pub fn of_filter(arguments: Rest<ValueOrKwargs>) -> Result<(Value, Self), Error> {
        let mut arguments = Self::new(arguments.into_values())?;
        if arguments.positional.is_empty() {
            return Err(Error::from(ErrorKind::MissingArgument));
        }
        let value = arguments.positional.remove(0);
        Ok((value, arguments))
    }

    /// An argument by position or name. `None` if it is missing.
    pub fn get(&self, index: usize, name: &str) -> Result<Option<Value>, Error> {
        match self.positional.get(index) {
            Some(value) => Ok(Some(value.clone())),
            None if self.named.has(name) => self.named.get(name).map(Some),
            None => Ok(None),
        }
    }

    /// A required argument.
    pub fn required(&self, index: usize, name: &str) -> Result<Value, Error> {
        self.get(index, name)?
            .ok_or_else(|| Error::new(ErrorKind::MissingArgument, format!("`{name}` is missing")))
    }

    /// A required string.
    pub fn text(&self, index: usize, name: &str) -> Result<String, Error> {
        text(&self.required(index, name)?, name)
    }

    /// An optional string. `None` if it is missing or `none`.
    pub fn optional_text(&self, index: usize, name: &str) -> Result<Option<String>, Error> {
        let value = self.get(index, name)?.filter(|value| !value.is_none());
        value.map(|value| text(&value, name)).transpose()
    }

    /// An optional integer. `None` if it is missing or `none`.
    pub fn integer(&self, index: usize, name: &str) -> Result<Option<i64>, Error> {
        let value = self.get(index, name)?.filter(|value| !value.is_none());
        let integer = value.map(|value| match value.kind() {
            ValueKind::Bool => Ok(i64::from(value.is_true())),
            _ => value
                .as_i64()
                .ok_or_else(|| fail(format!("`{name}` must be an integer"))),
        });
        integer.transpose()
    }

    /// An optional boolean.
    pub fn flag(&self, index: usize, name: &str) -> Result<Option<bool>, Error> {
        Ok(self.get(index, name)?.map(|value| value.is_true()))
    }

    /// The positional arguments.
    pub fn positional(&self) -> &[Value] {
        &self.positional
    }

    /// Returns an error if there are more than `max` positional arguments, or unused keyword
    /// arguments.
    pub fn done(&self, max: usize) -> Result<(), Error> {
        if self.positional.len() > max {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        self.named.assert_all_used()
    }
}

fn text(value: &Value, name: &str) -> Result<String, Error> {
    let text = value.as_str().filter(|_| value.kind() == ValueKind::String);
    budget::charge(text.map_or(0, budget::length))?;
    text.map(str::to_owned)
        .ok_or_else(|| fail(format!("`{name}` must be a string")))
}
