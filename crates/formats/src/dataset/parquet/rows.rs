//! Assembles rows from columns by definition and repetition levels, as in Dremel.
//! <https://research.google/pubs/dremel-interactive-analysis-of-web-scale-datasets-2/>

use super::super::fields::{FIELD, Fields, Name};
use super::super::json_value::{Budget, OBJECT, VALUE};
use super::super::source::RandomAccess;
use super::column::{self, Column};
use super::error::invalid;
use super::limits::Limits;
use parquet::basic::{ConvertedType, Repetition};
use parquet::errors::Result;
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::Type;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The selected columns of a row group.
pub(super) struct Rows {
    columns: Vec<(Name, Node)>,
}

/// A node of the schema.
enum Node {
    Column(Box<dyn Column>),
    /// Present if the definition level is greater.
    Optional(i16, Box<Node>),
    Group(Vec<(String, Node)>),
    /// Present if the definition level is greater; another entry follows if the repetition level is
    /// greater.
    List(i16, i16, Box<Node>),
    /// As a list, of keys and values.
    Map(i16, i16, Box<[Node; 2]>),
}

impl Rows {
    /// Opens the columns of a row group selected by `select`.
    pub fn open(
        file: &Arc<RandomAccess>,
        limits: &Arc<Limits>,
        group: &RowGroupMetaData,
        names: &[Name],
        select: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let schema = group.schema_descr().root_schema().get_fields();
        let mut builder = Builder {
            file,
            limits,
            group,
            next: 0,
        };
        let mut columns = Vec::new();
        for (field, name) in schema.iter().zip(names) {
            if select(name) {
                columns.push((name.clone(), builder.node(field, 0, 0)?));
            } else {
                builder.next += leaves(field);
            }
        }
        Ok(Self { columns })
    }

    /// Drops columns that are not selected.
    pub fn retain(&mut self, select: impl Fn(&str) -> bool) {
        self.columns.retain(|(name, _)| select(name));
    }

    /// Reads the next row; `None` if it exceeds the memory budget.
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
            let columns_read = fields.len() + 1;
            for (index, (_, node)) in self.columns.iter_mut().enumerate() {
                node.each(&mut |column| {
                    if index >= columns_read {
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
    /// Calls a function for every column.
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn Column) -> Result<()>) -> Result<()> {
        match self {
            Self::Column(column) => visit(column.as_mut()),
            Self::Optional(_, node) | Self::List(_, _, node) => node.each(visit),
            Self::Group(members) => members.iter_mut().try_for_each(|(_, node)| node.each(visit)),
            Self::Map(_, _, pair) => pair.iter_mut().try_for_each(|node| node.each(visit)),
        }
    }

    /// The levels of the first column.
    fn levels(&self) -> Option<(i16, i16)> {
        match self {
            Self::Column(column) => column.levels(),
            Self::Optional(_, node) | Self::List(_, _, node) => node.levels(),
            Self::Group(members) => members.first().and_then(|(_, node)| node.levels()),
            Self::Map(_, _, pair) => pair[0].levels(),
        }
    }

    /// Whether the node is present: its definition level is greater than `level`.
    fn is_defined(&self, level: i16) -> Result<bool> {
        match self.levels() {
            Some((definition, _)) => Ok(definition > level),
            None => Err(invalid("its columns are inconsistent")),
        }
    }

    /// Whether the list has another entry: the repetition level is greater than `level`.
    fn has_next_entry(&self, level: i16) -> bool {
        self.levels().is_some_and(|(_, repetition)| repetition > level)
    }

    fn advance(&mut self) -> Result<()> {
        self.each(&mut |column| {
            column.advance();
            Ok(())
        })
    }

    /// Reads the value in the current row; `None` if it exceeds the memory budget.
    fn value(&mut self, budget: &Budget) -> Result<Option<Value>> {
        match self {
            Self::Column(column) => {
                if column.levels().is_none() {
                    return Err(invalid("its columns are inconsistent"));
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
                    if !node.has_next_entry(*repetition) {
                        break;
                    }
                }
                Ok(Some(Value::Array(values)))
            }
            Self::Map(definition, repetition, pair) => {
                let mut object = Map::new();
                let [keys, values] = pair.as_mut();
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
                    if !keys.has_next_entry(*repetition) {
                        break;
                    }
                }
                Ok(Some(Value::Object(object)))
            }
        }
    }
}

/// Number of columns below a node of the schema.
fn leaves(field: &Type) -> usize {
    if field.is_primitive() {
        return 1;
    }
    field.get_fields().iter().map(|field| leaves(field)).sum()
}

/// Builds nodes from the schema; the columns of a row group are in schema order.
struct Builder<'a> {
    file: &'a Arc<RandomAccess>,
    limits: &'a Arc<Limits>,
    group: &'a RowGroupMetaData,
    next: usize,
}

impl Builder<'_> {
    /// Builds a field of a group at these levels.
    fn node(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let info = field.get_basic_info();
        if !info.has_repetition() {
            return Err(invalid("its columns are inconsistent"));
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

    /// Builds the node of a field that is present.
    fn required(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        if field.is_primitive() {
            let chunk = self.group.columns().get(self.next);
            let chunk = chunk.ok_or_else(|| invalid("its columns are inconsistent"))?;
            self.next += 1;
            return column::open(self.file, self.limits, chunk).map(Node::Column);
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
            return Err(invalid("its columns are inconsistent"));
        }
        Ok(Node::Group(members))
    }

    fn list(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let repeated = only_repeated(field)?;
        let entry = if is_entry(repeated) {
            // The legacy two-level list.
            self.required(repeated, definition + 1, repetition + 1)?
        } else {
            let entry = repeated.get_fields().first();
            let entry = entry.ok_or_else(|| invalid("its columns are inconsistent"))?;
            self.node(entry, definition + 1, repetition + 1)?
        };
        Ok(Node::List(definition, repetition, Box::new(entry)))
    }

    fn map(&mut self, field: &Type, definition: i16, repetition: i16) -> Result<Node> {
        let pair = only_repeated(field)?;
        if pair.is_primitive() {
            return Err(invalid("its columns are inconsistent"));
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
            _ => Err(invalid("its columns are inconsistent")),
        }
    }
}

/// The single repeated field of a list or map.
fn only_repeated(field: &Type) -> Result<&Type> {
    match field.get_fields() {
        [member]
            if member.get_basic_info().has_repetition()
                && member.get_basic_info().repetition() == Repetition::REPEATED =>
        {
            Ok(member)
        }
        _ => Err(invalid("its columns are inconsistent")),
    }
}

/// Whether the repeated field of a list is the entry itself, not a group around it.
/// <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#backward-compatibility-rules>
fn is_entry(repeated: &Type) -> bool {
    if repeated.is_primitive() {
        return true;
    }
    let members = repeated.get_fields();
    let is_repeated = |field: &Type| {
        let info = field.get_basic_info();
        info.has_repetition() && info.repetition() == Repetition::REPEATED
    };
    let is_list = repeated.get_basic_info().converted_type() == ConvertedType::LIST;
    if is_list || (members.len() == 1 && is_repeated(&members[0])) {
        return false;
    }
    members.len() > 1 || repeated.name() == "array" || repeated.name().ends_with("_tuple")
}
