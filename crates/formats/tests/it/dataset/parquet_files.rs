//! Parquet files written by the test: texts, conversations, codecs.

use crate::dataset::read;
use hearth_formats::dataset::ReadOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// A file of one row group. Each column has texts, definition levels and repetition levels.
pub fn written(schema: &str, codec: Compression, columns: &[(&[&str], &[i16], &[i16])]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(codec).build());
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = file.next_row_group().unwrap();
    for (texts, definition, repetition) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        let ColumnWriter::ByteArrayColumnWriter(writer) = column.untyped() else {
            panic!("a column of texts");
        };
        let texts: Vec<ByteArray> = texts.iter().map(|&text| ByteArray::from(text)).collect();
        let levels = |levels: &&[i16]| (!levels.is_empty()).then(|| levels.to_vec());
        writer
            .write_batch(&texts, levels(definition).as_deref(), levels(repetition).as_deref())
            .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
    bytes
}

pub const PAIRS: &str = "message schema { required binary prompt (UTF8); optional binary answer (UTF8); }";

#[test]
fn texts_are_read_in_each_codec() {
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let bytes = written(PAIRS, codec, &[(&["a", "c"], &[], &[]), (&["b"], &[1, 0], &[])]);
        // The format is detected by content, not by extension.
        assert_eq!(
            read(&bytes, "x.csv", &ReadOptions::default()),
            "Parquet prompt and answer: 1 a>b; 2 c>",
            "{codec}"
        );
    }
}

#[test]
fn conversations_are_lists_of_groups() {
    let schema = "message schema { optional group messages (LIST) { repeated group list { optional group element {
                  optional binary role (UTF8); optional binary content (UTF8); } } } }";
    let levels: (&[i16], &[i16]) = (&[4, 4, 4, 4], &[0, 1, 0, 1]);
    let bytes = written(
        schema,
        Compression::SNAPPY,
        &[
            (&["user", "assistant", "user", "assistant"], levels.0, levels.1),
            (&["a", "b", "c", "d"], levels.0, levels.1),
        ],
    );
    let actual = read(&bytes, "x.parquet", &ReadOptions::default());
    assert_eq!(actual, "Parquet messages: 1 User=a Assistant=b; 2 User=c Assistant=d");
}

#[test]
fn an_unsupported_codec_is_named() {
    let mut bytes = written(PAIRS, Compression::SNAPPY, &[(&["a"], &[], &[]), (&["b"], &[1], &[])]);
    // In the footer a column's codec follows its schema path, as field 4 (`0x15`), zigzag-encoded:
    // 1 is Snappy, 2 is gzip.
    let path = bytes
        .windows(8)
        .rposition(|window| window == b"\x18\x06prompt" || &window[2..] == b"prompt")
        .unwrap()
        + 8;
    let codec = path + bytes[path..].iter().position(|&byte| byte == 0x15).unwrap() + 1;
    assert_eq!(bytes[codec], 2);
    bytes[codec] = 4;
    let actual = read(&bytes, "x.parquet", &ReadOptions::default());
    assert!(
        actual.starts_with("this Parquet file is compressed with GZIP") && actual.contains("Snappy, Zstandard or no"),
        "{actual}"
    );
}
