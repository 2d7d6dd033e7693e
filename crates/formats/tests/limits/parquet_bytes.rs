//! Hand-made and unusual Parquet files.

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// A file with only a footer.
fn with_footer(footer: &[u8]) -> Vec<u8> {
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1", footer, &length, b"PAR1"].concat()
}

pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A schema node with a name and a number of children.
fn node(children: u64) -> Vec<u8> {
    let mut bytes = vec![0x35, 0x02, 0x18, 1, b'a'];
    if children > 0 {
        bytes.push(0x15);
        bytes.extend(varint(2 * children));
    } else {
        bytes.splice(..0, [0x15, 0x0c]);
        bytes[2] = 0x25;
    }
    bytes.push(0);
    bytes
}

/// A footer's version and schema.
fn schema(nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0x15, 2, 0x19, 0xfc];
    bytes.extend(varint(nodes.len() as u64));
    bytes.extend(nodes.concat());
    bytes
}

pub fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::UNCOMPRESSED)
}

/// A file with one string column, with optional definition and repetition levels.
pub fn written(
    schema: &str,
    properties: WriterPropertiesBuilder,
    texts: &[ByteArray],
    levels: Option<(&[i16], &[i16])>,
) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build())).unwrap();
    let mut group = file.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let ColumnWriter::ByteArrayColumnWriter(writer) = column.untyped() else {
        panic!("a column of texts");
    };
    let (definition, repetition) = levels.unzip();
    writer.write_batch(texts, definition, repetition).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.close().unwrap();
    bytes
}

pub const TEXT: &str = "message schema { required binary text (UTF8); }";
pub const LIST: &str =
    "message schema { required group text (LIST) { repeated group list { required binary element (UTF8); } } }";

/// Less than 50 bytes that claim 2^27 row groups.
pub fn many_groups() -> Vec<u8> {
    let mut footer = schema(&[node(1), node(0)]);
    footer.extend([0x16, 2, 0x19, 0xfc]);
    footer.extend(varint(1 << 27));
    footer.extend([0; 2]);
    with_footer(&footer)
}

/// Nested groups, each of which claims this many columns, of which one exists.
pub fn claims(levels: usize, columns: u64) -> Vec<u8> {
    let mut nodes = vec![node(columns); levels];
    nodes.push(node(0));
    let mut footer = schema(&nodes);
    footer.extend([0x16, 2, 0x19, 0x0c, 0]);
    with_footer(&footer)
}

/// Nested groups.
pub fn nested(levels: usize) -> Vec<u8> {
    let mut nodes = vec![node(1); levels];
    nodes.push(node(0));
    let mut footer = schema(&nodes);
    footer.extend([0x16, 2, 0x19, 0x0c, 0]);
    with_footer(&footer)
}

/// Kilobytes that decompress to `texts` megabytes.
pub fn grows(texts: usize) -> Vec<u8> {
    let text = ByteArray::from("a ".repeat(1 << 19).as_str());
    let zstd = properties().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let dictionary = zstd
        .set_dictionary_enabled(true)
        .set_dictionary_page_size_limit(8 << 20);
    written(TEXT, dictionary, &vec![text; texts], None)
}
