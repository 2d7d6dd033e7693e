//! Parquet: excessive counts, deep schemas, decompression bombs, and all supported encodings.

use crate::parquet_bytes::{LIST, TEXT, claims, grows, many_groups, nested, properties, varint, written};
use crate::{MIB, memory, read, refused};
use hearth_formats::dataset::{Dataset, DatasetProblem, ReadLimit, ReadOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterVersion;

#[test]
fn a_tiny_file_with_huge_counts_allocates_little() {
    let _alone = memory::alone();
    let file = many_groups();
    assert!(file.len() < 50, "{}", file.len());
    refused(file, "x.parquet", "this Parquet file is corrupt", MIB);
    // The parquet crate reserves room for the columns that a group claims: 8 GiB, and 480 MiB.
    let file = claims(1, 1 << 30);
    assert!(file.len() < 50, "{}", file.len());
    refused(file, "x.parquet", "its columns are inconsistent", MIB);
    refused(claims(60, 1 << 20), "x.parquet", "its columns are inconsistent", MIB);
    // A footer longer than the file.
    refused(
        b"PAR1\0\0\0\0\xff\xff\xff\xffPAR1".to_vec(),
        "x.parquet",
        "it is truncated",
        MIB,
    );
}

#[test]
fn a_schema_of_a_hundred_thousand_levels_is_refused() {
    let _alone = memory::alone();
    for levels in [65, 100_000] {
        refused(
            nested(levels),
            "x.parquet",
            "its columns are nested too deeply",
            20 * MIB,
        );
    }
}

/// Changes the uncompressed size in the header of the first page.
fn with_page_size(bytes: &[u8], size: u32) -> Vec<u8> {
    // The first page header follows the magic number: page type, then zigzag-encoded uncompressed
    // size.
    assert_eq!((bytes[4], bytes[6]), (0x15, 0x15));
    let end = 7 + bytes[7..].iter().position(|&byte| byte < 0x80).unwrap() + 1;
    let new_size = varint(2 * u64::from(size));
    assert_eq!(new_size.len(), end - 7);
    [&bytes[..7], &new_size, &bytes[end..]].concat()
}

#[test]
fn a_page_that_decompresses_to_gigabytes_is_refused() {
    let _alone = memory::alone();
    // Long enough that both sizes are encoded with the same number of bytes.
    let text = ByteArray::from("a".repeat(140 * MIB).as_str());
    for codec in [Compression::ZSTD(ZstdLevel::default()), Compression::SNAPPY] {
        let plain = properties().set_compression(codec).set_dictionary_enabled(false);
        let file = written(TEXT, plain, std::slice::from_ref(&text), None);
        for size in [i32::MAX as u32, 200 << 20] {
            refused(
                with_page_size(&file, size),
                "x.parquet",
                "this Parquet file is corrupt",
                500 * MIB,
            );
        }
    }
}

#[test]
fn reading_stops_at_the_text_limit() {
    let _alone = memory::alone();
    let text = ByteArray::from("a ".repeat(MIB / 2).as_str());
    let deltas = properties()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BYTE_ARRAY);
    for file in [grows(1500), written(TEXT, deltas, &vec![text; 1500], None)] {
        assert!(file.len() < 4 * MIB, "{}", file.len());
        let (dataset, peak_bytes) = read(file, "x.parquet");
        match dataset {
            Ok(dataset) => assert!(matches!(dataset.limit, Some(ReadLimit::Text { .. }))),
            Err(message) => assert!(message.contains("decompresses to too much text"), "{message}"),
        }
        assert!(peak_bytes < 3000 * MIB, "it took {} MiB", peak_bytes / MIB);
    }
}

#[test]
fn a_row_with_a_huge_list_is_refused() {
    let _alone = memory::alone();
    let text = ByteArray::from("a ".repeat(16 << 10).as_str());
    let count = 100_000;
    let mut repetition = vec![1; count];
    repetition[0] = 0;
    let dictionary = properties().set_dictionary_enabled(true);
    let file = written(
        LIST,
        dictionary,
        &vec![text; count],
        Some((&vec![1; count], &repetition)),
    );
    assert!(file.len() < MIB, "{}", file.len());
    refused(file, "x.parquet", "TooMuchMemory { mib: 256 }", 900 * MIB);
}

#[test]
fn a_row_with_too_many_entries_is_refused() {
    let _alone = memory::alone();
    let count = 6_000_000;
    let mut repetition = vec![1; count];
    repetition[0] = 0;
    let file = written(
        LIST,
        properties().set_data_page_row_count_limit(usize::MAX),
        &vec![ByteArray::from("a"); count],
        Some((&vec![1; count], &repetition)),
    );
    refused(file, "x.parquet", "one of its rows has too many entries", 700 * MIB);
}

#[test]
fn every_encoding_of_strings_is_read() {
    let _alone = memory::alone();
    let texts: Vec<String> = (0..3000)
        .map(|row| format!("row {row} {}", "x".repeat(row % 90)))
        .collect();
    let arrays: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let encodings = [
        None,
        Some(Encoding::PLAIN),
        Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        Some(Encoding::DELTA_BYTE_ARRAY),
    ];
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for encoding in encodings {
                let properties = properties()
                    .set_compression(codec)
                    .set_writer_version(version)
                    .set_data_page_row_count_limit(700);
                let properties = match encoding {
                    Some(encoding) => properties.set_dictionary_enabled(false).set_encoding(encoding),
                    None => properties,
                };
                let (dataset, _) = read(written(TEXT, properties, &arrays, None), "x.parquet");
                let dataset = dataset.unwrap();
                let actual: Vec<&str> = dataset
                    .examples
                    .iter()
                    .map(|example| match &example.content {
                        hearth_formats::dataset::Content::Text(text) => text.as_str(),
                        other => panic!("{other:?}"),
                    })
                    .collect();
                assert!(actual == texts, "{codec} {version:?} {encoding:?}");
            }
        }
    }
}

#[test]
fn reading_can_be_cancelled() {
    let _alone = memory::alone();
    let texts = vec![ByteArray::from("some text"); 50_000];
    let file = written(TEXT, properties(), &texts, None);
    let (cancelled, _) = memory::watched(move || {
        let mut calls = 0;
        let mut should_continue = || {
            calls += 1;
            calls < 4
        };
        let result = Dataset::from_bytes_cancellable(file, "x.parquet", &ReadOptions::default(), &mut should_continue);
        result.is_err_and(|error| matches!(error.problem, DatasetProblem::Cancelled)) && calls == 4
    });
    assert!(cancelled);
}
