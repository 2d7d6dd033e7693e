//! Arbitrary bytes as a dataset with any extension: refused, or examples.

use crate::seeds::{self, Seed};
use hearth_formats::dataset::{Dataset, ReadOptions, leaks, split};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

const NAMES: [&str; 7] = ["x.jsonl", "x.json", "x.csv", "x.txt", "x.tsv", "x.md", "x.parquet"];

/// The input: flags, then the file.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&flags, bytes)) = bytes.split_first() else {
        return false;
    };
    let options = ReadOptions {
        mapping: None,
        skip_broken: flags & 1 == 1,
    };
    let name = NAMES[usize::from(flags >> 1) % NAMES.len()];
    let Ok(dataset) = Dataset::from_bytes(bytes.to_vec(), name, &options) else {
        return false;
    };
    assert!(!dataset.examples.is_empty());
    assert!(dataset.broken_total == 0 || options.skip_broken);
    assert!(dataset.broken.len() <= dataset.broken_total as usize);
    let fingerprints: Vec<u64> = dataset.examples.iter().map(|example| example.fingerprint()).collect();
    let split = split(&fingerprints, 0.3, 7);
    let mut indices: Vec<usize> = split.train.iter().chain(&split.eval).copied().collect();
    indices.sort_unstable();
    assert!(
        indices.iter().copied().eq(0..fingerprints.len()),
        "each example is on one side"
    );
    let _ = leaks(&dataset.examples, &split);
    true
}

pub fn seeds() -> Vec<Seed> {
    let mut inputs = Vec::new();
    let mut add = |name: &str, kind: usize, bytes: &[u8]| {
        for skip_broken in [0, 1] {
            let flags = (2 * kind + skip_broken) as u8;
            inputs.push(Seed::new(name, [&[flags], bytes].concat()));
        }
    };
    let sample = seeds::text("assets/datasets/hearthside.jsonl");
    let lines: String = sample.split_inclusive('\n').take(8).collect();
    add("sample", 0, lines.as_bytes());
    add("tales", 0, &seeds::file("tests/fixtures/v0/tales.jsonl"));
    add(
        "ShareGPT",
        0,
        b"{\"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"}, {\"from\": \"gpt\", \"value\": \"Hello\"}]}\n",
    );
    add(
        "alpaca",
        1,
        b"[{\"instruction\": \"Add\", \"input\": \"2, 3\", \"output\": \"5\"}, {\"instruction\": \
     \"Say\", \"input\": \"\", \"output\": \"A\"}]",
    );
    add(
        "parts",
        0,
        b"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi\"}]}, \
     {\"role\": \"assistant\", \"content\": \"Hello\"}]}",
    );
    add(
        "table",
        2,
        b"prompt,completion\n\"2 + 2\",4\n\"a \"\"b\"\"\",\"c\nd\"\n",
    );
    add("semicolons", 2, b"question;answer\nA;B\nC;D\n");
    add("tabs", 4, b"question\tanswer\nA\tB\nC\tD\n");
    add("text", 3, b"One.\n\nTwo, with more.\r\n\r\nThree.");
    add("notes", 5, &seeds::file("assets/datasets/notes.md"));
    for (name, bytes) in parquet_files() {
        add(name, 6, &bytes);
    }
    inputs
}

const PAIRS: &str = "message schema { required binary prompt (UTF8); optional binary answer (UTF8); }";
const CONVERSATIONS: &str =
    "message schema { optional group messages (LIST) { repeated group list { optional group element {
    optional binary role (UTF8); optional binary content (UTF8); } } } }";

/// The texts of a column, with definition and repetition levels.
type Column<'a> = (&'a [&'a str], &'a [i16], &'a [i16]);

fn parquet_files() -> Vec<(&'static str, Vec<u8>)> {
    let pairs: [Column; 2] = [(&["one", "two", "one"], &[], &[]), (&["1", "2"], &[1, 0, 1], &[])];
    let levels: (&[i16], &[i16]) = (&[4, 4, 4, 4], &[0, 1, 0, 1]);
    let roles = ["user", "assistant", "user", "assistant"];
    let conversations: [Column; 2] = [
        (&roles, levels.0, levels.1),
        (&["a", "b", "c", "d"], levels.0, levels.1),
    ];
    let zstd = Compression::ZSTD(ZstdLevel::default());
    vec![
        (
            "pairs, plain",
            parquet_file(
                PAIRS,
                Compression::UNCOMPRESSED,
                WriterVersion::PARQUET_1_0,
                true,
                &pairs,
            ),
        ),
        (
            "pairs, second version",
            parquet_file(
                PAIRS,
                Compression::UNCOMPRESSED,
                WriterVersion::PARQUET_2_0,
                false,
                &pairs,
            ),
        ),
        (
            "pairs, snappy",
            parquet_file(PAIRS, Compression::SNAPPY, WriterVersion::PARQUET_1_0, false, &pairs),
        ),
        (
            "pairs, zstd",
            parquet_file(PAIRS, zstd, WriterVersion::PARQUET_2_0, true, &pairs),
        ),
        (
            "conversations",
            parquet_file(
                CONVERSATIONS,
                Compression::SNAPPY,
                WriterVersion::PARQUET_1_0,
                true,
                &conversations,
            ),
        ),
    ]
}

fn parquet_file(
    schema: &str,
    codec: Compression,
    version: WriterVersion,
    dictionary: bool,
    columns: &[Column],
) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_writer_version(version)
        .set_dictionary_enabled(dictionary)
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).expect("a file");
    let mut group = file.next_row_group().expect("a row group");
    for (texts, definition, repetition) in columns {
        let mut column = group.next_column().expect("a column").expect("one more");
        let ColumnWriter::ByteArrayColumnWriter(writer) = column.untyped() else {
            panic!("a column of texts");
        };
        let texts: Vec<ByteArray> = texts.iter().map(|&text| ByteArray::from(text)).collect();
        let levels = |levels: &[i16]| (!levels.is_empty()).then(|| levels.to_vec());
        writer
            .write_batch(&texts, levels(definition).as_deref(), levels(repetition).as_deref())
            .expect("values");
        column.close().expect("its end");
    }
    group.close().expect("its end");
    file.close().expect("its end");
    bytes
}
