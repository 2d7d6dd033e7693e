//! Round trips of GGUF files, single and split.

use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings, TensorHeader, TensorType, Value};
use proptest::prelude::*;
use std::path::Path;

fn write(metadata: &Metadata, tensors: &[(TensorHeader, Vec<u8>)]) -> Vec<u8> {
    let headers: Vec<_> = tensors.iter().map(|(header, _)| header.clone()).collect();
    let mut writer = GgufWriter::begin(Vec::new(), metadata, &headers).unwrap();
    for (_, data) in tensors {
        writer.tensor(data).unwrap();
    }
    writer.finish().unwrap()
}

fn tensor(name: &str, shape: &[u64], kind: TensorType, fill: u8) -> (TensorHeader, Vec<u8>) {
    let elements: u64 = shape.iter().product();
    let len = elements / kind.block_elements() * kind.block_bytes();
    (
        TensorHeader {
            name: name.into(),
            shape: shape.to_vec(),
            kind,
        },
        vec![fill; len as usize],
    )
}

/// Any value except NaN, which is not equal to itself.
fn value() -> impl Strategy<Value = Value> {
    let text = "\\PC{0,12}";
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (-1e30f32..1e30).prop_map(Value::from),
        (-1e300f64..1e300).prop_map(Value::from),
        text.prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Value::from),
        prop::collection::vec(any::<i16>(), 0..5).prop_map(Value::from),
        prop::collection::vec(any::<u64>(), 0..5).prop_map(Value::from),
        prop::collection::vec(any::<bool>(), 0..5).prop_map(Value::from),
        prop::collection::vec(-1e30f32..1e30, 0..5).prop_map(Value::from),
        prop::collection::vec(text, 0..5).prop_map(|texts| Value::from(texts.iter().collect::<Strings>())),
    ]
}

proptest! {
    #[test]
    fn written_files_are_read_back(
        values in prop::collection::btree_map("[a-z._]{1,12}", value(), 0..8),
        shapes in prop::collection::vec((prop::collection::vec(1u64..5, 0..3), 0..TensorType::ALL.len()), 0..6),
        alignment in 0u32..9,
    ) {
        let mut metadata: Metadata = values.into_iter().collect();
        metadata.insert("general.alignment", 1u32 << alignment);
        let tensors: Vec<_> = shapes
            .into_iter()
            .enumerate()
            .map(|(index, (rest, kind))| {
                let kind = TensorType::ALL[kind];
                let shape: Vec<u64> = [kind.block_elements() * 2].into_iter().chain(rest).collect();
                tensor(&format!("t{index}"), &shape, kind, index as u8)
            })
            .collect();
        let read = Gguf::from_bytes(write(&metadata, &tensors)).unwrap();
        prop_assert!(read.metadata().iter().eq(metadata.iter()));
        prop_assert_eq!(read.tensors().len(), tensors.len());
        for (header, data) in &tensors {
            let tensor = read.tensor(&header.name).unwrap();
            prop_assert_eq!(&tensor.info.shape, &header.shape);
            prop_assert_eq!(tensor.info.kind, header.kind);
            prop_assert_eq!(tensor.bytes(), data.as_slice());
        }
    }
}

#[test]
fn a_mapped_file_is_unchanged_after_releasing_its_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let tensors = [
        tensor("a", &[4096, 4], TensorType::F32, 7),
        tensor("b", &[64], TensorType::Q8_0, 9),
    ];
    std::fs::write(
        &path,
        write(&[("general.architecture", "llama")].into_iter().collect(), &tensors),
    )
    .unwrap();
    let gguf = Gguf::open(&path).unwrap();
    assert_eq!(gguf.architecture().unwrap(), "llama");
    assert_eq!(gguf.path(), path);
    assert_eq!(gguf.file_size(), std::fs::metadata(&path).unwrap().len());
    assert_eq!(gguf.parameter_count(), 4096 * 4 + 64);
    assert_eq!(gguf.quantization(), "F32");
    for release in [
        |gguf: &Gguf| gguf.release(gguf.tensor("a").unwrap().info),
        Gguf::release_all,
    ] {
        release(&gguf);
        assert!(gguf.tensor("a").unwrap().bytes().iter().all(|&byte| byte == 7));
        assert!(gguf.tensor("b").unwrap().bytes().iter().all(|&byte| byte == 9));
    }
    assert!(gguf.tensor("c").is_none());
}

#[test]
fn quantization_is_from_the_file_type_or_the_tensors() {
    for (file_type, tensors, expected) in [
        (Some(15u32), vec![tensor("a", &[256], TensorType::Q6_K, 0)], "Q4_K_M"),
        (Some(999), vec![tensor("a", &[256], TensorType::Q6_K, 0)], "Q6_K"),
        (
            None,
            vec![
                tensor("a", &[32, 4], TensorType::Q4_0, 0),
                tensor("b", &[9], TensorType::F32, 0),
            ],
            "Q4_0",
        ),
        (None, vec![], "none"),
    ] {
        let metadata = file_type.map(|id| ("general.file_type", id)).into_iter().collect();
        assert_eq!(
            Gguf::from_bytes(write(&metadata, &tensors)).unwrap().quantization(),
            expected
        );
    }
}

/// Writes a part of a split model.
fn write_part(folder: &Path, name: &str, number: u16, count: u16, tensors: i32, of: &[(TensorHeader, Vec<u8>)]) {
    let metadata: Metadata = [
        ("split.no", Value::from(number)),
        ("split.count", Value::from(count)),
        ("split.tensors.count", Value::from(tensors)),
        ("part", Value::from(number)),
    ]
    .into_iter()
    .collect();
    std::fs::write(folder.join(name), write(&metadata, of)).unwrap();
}

#[test]
fn split_models() {
    let folder = tempfile::tempdir().unwrap();
    let part = |number| tensor(&format!("t{number}"), &[4], TensorType::F32, number);
    for number in 0..3u8 {
        let name = format!("m-{:05}-of-00003.gguf", number + 1);
        write_part(folder.path(), &name, number.into(), 3, 3, &[part(number)]);
    }
    // Opening any part opens the whole model.
    for name in ["m-00001-of-00003.gguf", "m-00003-of-00003.gguf"] {
        let gguf = Gguf::open(folder.path().join(name)).unwrap();
        assert_eq!(
            gguf.tensors().map(|info| info.name.as_str()).collect::<Vec<_>>(),
            ["t0", "t1", "t2"]
        );
        assert_eq!(gguf.tensor("t2").unwrap().bytes(), [2; 16]);
        assert_eq!(gguf.u32("part").unwrap(), Some(0));
        assert!(gguf.path().ends_with("m-00001-of-00003.gguf"));
    }
    let refused = |expected: &str| {
        let error = Gguf::open(folder.path().join("m-00001-of-00003.gguf"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    write_part(folder.path(), "m-00002-of-00003.gguf", 1, 3, 3, &[part(0)]);
    refused("'t0' is invalid: it is in two parts");
    write_part(folder.path(), "m-00002-of-00003.gguf", 1, 3, 3, &[]);
    refused("have 2 tensors in total instead of 3");
    write_part(folder.path(), "m-00002-of-00003.gguf", 2, 3, 3, &[part(1)]);
    refused("does not belong to");
    std::fs::remove_file(folder.path().join("m-00002-of-00003.gguf")).unwrap();
    refused("m-00002-of-00003.gguf' is missing");
    std::fs::rename(
        folder.path().join("m-00001-of-00003.gguf"),
        folder.path().join("renamed.gguf"),
    )
    .unwrap();
    let error = Gguf::open(folder.path().join("renamed.gguf")).unwrap_err().to_string();
    assert!(
        error.contains("its name does not end in '-00001-of-00003.gguf'"),
        "{error}"
    );
}

#[test]
fn the_writer_refuses_invalid_tensors() {
    let header = |shape: &[u64], kind| {
        [TensorHeader {
            name: "t".into(),
            shape: shape.to_vec(),
            kind,
        }]
    };
    let begin = |tensors: &[TensorHeader]| GgufWriter::begin(Vec::new(), &Metadata::new(), tensors);
    assert!(begin(&header(&[33], TensorType::Q4_0)).is_err());
    assert!(begin(&header(&[], TensorType::F32)).is_err());
    assert!(begin(&[header(&[1], TensorType::F32), header(&[1], TensorType::F32)].concat()).is_err());
    let mut writer = begin(&header(&[2], TensorType::F32)).unwrap();
    assert!(writer.tensor(&[0; 7]).is_err());
    let writer = begin(&header(&[2], TensorType::F32)).unwrap();
    assert!(writer.finish().unwrap_err().to_string().contains("'t'"));
    let mut writer = begin(&[]).unwrap();
    assert!(writer.tensor(&[]).is_err());
}
