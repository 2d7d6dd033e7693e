//! Decoded size of delta-encoded strings. The parquet crate allocates by the lengths in such a
//! page, and each string can repeat the whole previous one.
//! <https://github.com/apache/parquet-format/blob/master/Encodings.md#delta-encoding-delta_binary_packed--5>

use parquet::basic::Encoding;

/// Validates the values of a page and returns their decoded size in bytes; `None` if there are more
/// than `most` values, or the encoding is malformed.
pub(super) fn size(encoding: Encoding, values: &[u8], most: u64) -> Option<u64> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => lengths(values, most).map(|(_, sum)| sum),
        Encoding::DELTA_BYTE_ARRAY => {
            let (end, prefixes) = lengths(values, most)?;
            let (_, suffixes) = lengths(values.get(end..)?, most)?;
            prefixes.checked_add(suffixes)
        }
        _ => Some(0),
    }
}

/// Decodes at most `most` delta-encoded lengths. Returns their end offset and their sum.
fn lengths(bytes: &[u8], most: u64) -> Option<(usize, u64)> {
    let mut at = 0;
    let block = varint(bytes, &mut at)?;
    let parts = varint(bytes, &mut at)?;
    let count = varint(bytes, &mut at)?;
    let mut last = zigzag(varint(bytes, &mut at)?);
    if count > most || parts == 0 || parts > block || block > 1 << 24 {
        return None;
    }
    let per_part = block / parts;
    let mut left = count;
    let mut sum = 0u64;
    if left > 0 {
        sum = u64::try_from(last).ok()?;
        left -= 1;
    }
    while left > 0 {
        let least = zigzag(varint(bytes, &mut at)?);
        let widths = at..at.checked_add(usize::try_from(parts).ok()?)?;
        at = widths.end;
        for &width in bytes.get(widths)? {
            if left == 0 {
                break;
            }
            let values = left.min(per_part);
            let bits = Bits {
                bytes: bytes.get(at..)?,
                width: u64::from(width),
            };
            for index in 0..values {
                last = i64::from(
                    (last as i32)
                        .wrapping_add(least as i32)
                        .wrapping_add(bits.get(index)? as i32),
                );
                sum = sum.checked_add(u64::try_from(last).ok()?)?;
            }
            left -= values;
            at = (at + (per_part * u64::from(width)).div_ceil(8) as usize).min(bytes.len());
        }
    }
    Some((at, sum))
}

/// Bit-packed integers of equal width, least significant bit first.
struct Bits<'a> {
    bytes: &'a [u8],
    width: u64,
}

impl Bits<'_> {
    fn get(&self, index: u64) -> Option<u64> {
        if self.width == 0 {
            return Some(0);
        }
        if self.width > 32 {
            return None;
        }
        let bit = index * self.width;
        let first = (bit / 8) as usize;
        let end = (bit + self.width).div_ceil(8) as usize;
        let bytes = self.bytes.get(first..end)?;
        let mut value = 0u64;
        for (i, &byte) in bytes.iter().enumerate() {
            value |= u64::from(byte) << (8 * i);
        }
        Some(value >> (bit % 8) & ((1 << self.width) - 1))
    }
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::basic::Compression;
    use parquet::column::writer::ColumnWriter;
    use parquet::data_type::ByteArray;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// The values of the first page, encoded by the parquet crate.
    fn encoded(texts: &[String], encoding: Encoding) -> Vec<u8> {
        let schema = Arc::new(parse_message_type("message schema { required binary text (UTF8); }").unwrap());
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(encoding)
            .set_compression(Compression::UNCOMPRESSED)
            .build();
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let ColumnWriter::ByteArrayColumnWriter(writer) = column.untyped() else {
            panic!("a column of texts");
        };
        let texts: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
        writer.write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();
        let mut thrift = super::super::thrift::Thrift::new(&bytes[4..]);
        thrift.skip(super::super::thrift::STRUCT).unwrap();
        bytes.split_off(4 + thrift.position())
    }

    proptest! {
        #[test]
        fn size_is_the_total_length_of_the_texts(texts in prop::collection::vec("[ab]{0,60}", 1..300)) {
            let bytes: u64 = texts.iter().map(|text| text.len() as u64).sum();
            for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
                let values = encoded(&texts, encoding);
                prop_assert_eq!(size(encoding, &values, texts.len() as u64), Some(bytes));
                prop_assert_eq!(size(encoding, &values, texts.len() as u64 - 1), None);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
                size(encoding, &bytes, 1000);
            }
        }
    }
}
