//! Rows out of columns: lists and groups are put together by the levels of what is in them, as Dremel's authors wrote it.
//! <https://research.google/pubs/dremel-interactive-analysis-of-web-scale-datasets-2/>

use super::super::json::{Fields, Name};
use super::super::json_value::{Budget, FIELD, OBJECT, VALUE};
use super::super::source::Places;
use super::column::{self, Column};
use super::limits::{Limits, over};
use parquet::basic::{ConvertedType, Repetition};
use parquet::errors::Result;
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::Type;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The columns of a row group that are wanted.
pub(super) struct Rows {
    columns: Vec<(Name, Node)>,
}

/// What a part of the schema is made of.
enum Node {
    Column(Box<dyn Column>),
    /// There where its definition is greater.
    Optional(i16, Box<Node>),
    Group(Vec<(String, Node)>),
    /// There where its definition is greater; an entry goes on where the repetition is greater.
    List(i16, i16, Box<Node>),
    /// As a list, of keys and values.
    Map(i16, i16, Box<[Node; 2]>),
}

impl Rows {
    /// Opens the columns of a row group that `wanted` names.
    pub fn open(
        places: &Arc<Places>,
        limits: &Arc<Limits>,
        group: &RowGroupMetaData,
        names: &[Name],
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let schema = group.schema_descr().root_schema().get_fields();
        let mut builder = Builder {
            places,
            limits,
            group,
            next: 0,
        };
        let mut columns = Vec::new();
        for (field, name) in schema.iter().zip(names) {
            if wanted(name) {
                columns.push((name.clone(), builder.node(field, 0, 0)?));
            } else {
                builder.next += leaves(field);
            }
        }
        Ok(Self { columns })
    }

    /// Lets go of columns.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.columns.retain(|(name, _)| wanted(name));
    }

    /// The next row; none where it takes too much memory.
    pub fn row(&mut self, budget: &Budget) -> Result<Option<Fields>> {
        let mut fields = Fields::with_capacity(self.columns.len());
        for (name, node) in &mut self.columns {
            node.each(&mut |column| column.begin_row())?;
            if !budget.takes(FIELD) {
                break;
            }
            match node.value(budget)? {
                Some(value) => fields.push((name.clone(), value)),
                None => break,
            }
        }
        if budget.is_exceeded() {
            let read = fields.len() + 1;
            for (place, (_, node)) in self.columns.iter_mut().enumerate() {
                node.each(&mut |column| {
                    if place >= read {
                        column.begin_row()?;
                    }
                    column.leave_row();
                    Ok(())
                })?;
            }
            return Ok(None);
        }
        Ok(Some(fields))
    }
}

impl Node {
    /// Does something with every column.
    fn each(&mut self, what: &mut dyn FnMut(&mut dyn Column) -> Result<()>) -> Result<()> {
        match self {
            Self::Column(column) => what(column.as_mut()),
            Self::Optional(_, node) | Self::List(_, _, node) => node.each(what),
            Self::Group(members) => members.iter_mut().try_for_each(|(_, node)| node.each(what)),
            Self::Map(_, _, both) => both.iter_mut().try_for_each(|node| node.each(what)),
        }
    }

    /// The levels of its first column.
    fn levels(&self) -> Option<(i16, i16)> {
        match self {
            Self::Column(column) => column.levels(),
            Self::Optional(_, node) | Self::List(_, _, node) => node.levels(),
            Self::Group(members) => members.first().and_then(|(_, node)| node.levels()),
            Self::Map(_, _, both) => both[0].levels(),
        }
    }

    fn is_defined(&self, beyond: i16) -> Result<bool> {
        match self.levels() {
            Some((definition, _)) => Ok(definition > beyond),
            None => Err(over("its columns contradict one another")),
        }
    }

    fn goes_on(&self, beyond: i16) -> bool {
        self.levels().is_some_and(|(_, repetition)| repetition > beyond)
    }

    fn advance(&mut self) -> Result<()> {
        self.each(&mut |column| {
            column.advance();
            Ok(())
        })
    }

    /// What it holds in the row under way; none where that takes too much memory.
    fn value(&mut self, budget: &Budget) -> Result<Option<Value>> {
        match self {
            Self::Column(column) => {
                if column.levels().is_none() {
                    return Err(over("its columns contradict one another"));
                }
                let value = column.value(budget)?;
                column.advance();
                Ok(value)
            }
            Self::Optional(definition, node) => {
                if node.is_defined(*definition)? {
                    return node.value(budget);
                }
                node.advance()?;
                Ok(Some(Value::Null))
            }
            Self::Group(members) => {
                let mut object = Map::new();
                for (name, node) in members {
                    if !budget.takes(OBJECT / 6 + name.len()) {
                        return Ok(None);
                    }
                    let Some(value) = node.value(budget)? else {
                        return Ok(None);
                    };
                    object.insert(name.clone(), value);
                }
                Ok(Some(Value::Object(object)))
            }
            Self::List(definition, repetition, node) => {
                let mut values = Vec::new();
                loop {
                    if !node.is_defined(*definition)? {
                        node.advance()?;
                        break;
                    }
                    if !budget.takes(VALUE) {
                        return Ok(None);
                    }
                    let Some(value) = node.value(budget)? else {
                        return Ok(None);
                    };
                    values.push(value);
                    if !node.goes_on(*repetition) {
                        break;
                    }
                }
                Ok(Some(Value::Array(values)))
            }
            Self::Map(definition, repetition, both) => {
                let mut object = Map::new();
                let [keys, values] = both.as_mut();
                loop {
                    if !keys.is_defined(*definition)? {
                        keys.advance()?;
                        values.advance()?;
                        break;
                    }
                    if !budget.takes(OBJECT / 6) {
                        return Ok(None);
                    }
                    let (Some(key), Some(value)) = (keys.value(budget)?, values.value(budget)?) else {
                        return Ok(None);
                    };
                    if let Value::String(key) = key {
                        object.insert(key, value);
                    }
                    if !keys.goes_on(*repetition) {
                        break;
                    }
                }
                Ok(Some(Value::Object(object)))
            }
        }
    }
}

/// Columns in a part of the schema.
fn leaves(part: &Type) -> usize {
    if part.is_primitive() {
        return 1;
    }
    part.get_fields().iter().map(|field| leaves(field)).sum()
}

/// Goes down the schema; the columns of a row group are in its order.
struct Builder<'a> {
    places: &'a Arc<Places>,
    limits: &'a Arc<Limits>,
    group: &'a RowGroupMetaData,
    next: usize,
}

impl Builder<'_> {
    /// A field of a group of these levels.
    fn node(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let info = field.get_basic_info();
        if !info.has_repetition() {
            return Err(over("its columns contradict one another"));
        }
        match info.repetition() {
            Repetition::REQUIRED => self.required(field, definition, repetition),
            Repetition::OPTIONAL => {
                let node = self.required(field, definition + 1, repetition)?;
                Ok(Node::Optional(definition, Box::new(node)))
            }
            Repetition::REPEATED => {
                let node = self.required(field, definition + 1, repetition + 1)?;
                Ok(Node::List(definition, repetition, Box::new(node)))
            }
        }
    }

    /// What a field holds where it is there.
    fn required(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        if field.is_primitive() {
            let chunk = self.group.columns().get(self.next);
            let chunk = chunk.ok_or_else(|| over("its columns contradict one another"))?;
            self.next += 1;
            return column::open(self.places, self.limits, chunk).map(Node::Column);
        }
        match field.get_basic_info().converted_type() {
            ConvertedType::LIST => self.list(field, definition, repetition),
            ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => self.map(field, definition, repetition),
            _ => self.group(field, definition, repetition),
        }
    }

    fn group(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let mut members = Vec::new();
        for member in field.get_fields() {
            members.push((member.name().to_owned(), self.node(member, definition, repetition)?));
        }
        if members.is_empty() {
            return Err(over("its columns contradict one another"));
        }
        Ok(Node::Group(members))
    }

    fn list(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let repeated = only_repeated(field)?;
        let entry = if is_entry(repeated) {
            // Written in the old way.
            self.required(repeated, definition + 1, repetition + 1)?
        } else {
            let entry = repeated.get_fields().first();
            let entry = entry.ok_or_else(|| over("its columns contradict one another"))?;
            self.node(entry, definition + 1, repetition + 1)?
        };
        Ok(Node::List(definition, repetition, Box::new(entry)))
    }

    fn map(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let pair = only_repeated(field)?;
        if pair.is_primitive() {
            return Err(over("its columns contradict one another"));
        }
        match pair.get_fields() {
            [key] => {
                let key = self.node(key, definition + 1, repetition + 1)?;
                Ok(Node::List(definition, repetition, Box::new(key)))
            }
            [key, value] => {
                let key = self.node(key, definition + 1, repetition + 1)?;
                let value = self.node(value, definition + 1, repetition + 1)?;
                Ok(Node::Map(definition, repetition, Box::new([key, value])))
            }
            _ => Err(over("its columns contradict one another")),
        }
    }
}

/// The field of a list or map, which repeats.
fn only_repeated(field: &Type) -> Result<&Type> {
    match field.get_fields() {
        [only]
            if only.get_basic_info().has_repetition() && only.get_basic_info().repetition() == Repetition::REPEATED =>
        {
            Ok(only)
        }
        _ => Err(over("its columns contradict one another")),
    }
}

/// Whether what repeats in a list is an entry, not a group around one.
/// <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#backward-compatibility-rules>
fn is_entry(repeated: &Type) -> bool {
    if repeated.is_primitive() {
        return true;
    }
    let members = repeated.get_fields();
    let repeats = |field: &Type| {
        let info = field.get_basic_info();
        info.has_repetition() && info.repetition() == Repetition::REPEATED
    };
    let is_list = repeated.get_basic_info().converted_type() == ConvertedType::LIST;
    if is_list || (members.len() == 1 && repeats(&members[0])) {
        return false;
    }
    members.len() > 1 || repeated.name() == "array" || repeated.name().ends_with("_tuple")
}
