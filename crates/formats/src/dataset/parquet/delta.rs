//! Decoded size of DELTA_BYTE_ARRAY and DELTA_LENGTH_BYTE_ARRAY pages. Each string can repeat the
//! whole previous one, so a small page can decode to gigabytes, and the parquet crate allocates
//! that before it checks.
//! <https://github.com/apache/parquet-format/blob/master/Encodings.md#delta-encoding-delta_binary_packed--5>

use parquet::basic::Encoding;

/// Maximum values per block, of which the parquet crate allocates one at once.
const MAX_BLOCK_SIZE: u64 = 1 << 24;

/// Validates the values of a page and returns their decoded size in bytes. `None` if there are more
/// than `max_values` values, or the encoding is malformed.
pub(super) fn decoded_size(encoding: Encoding, values: &[u8], max_values: u64) -> Option<u64> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => sum_lengths(values, max_values).map(|(_, sum)| sum),
        Encoding::DELTA_BYTE_ARRAY => {
            let (end, prefixes) = sum_lengths(values, max_values)?;
            let (_, suffixes) = sum_lengths(values.get(end..)?, max_values)?;
            prefixes.checked_add(suffixes)
        }
        _ => Some(0),
    }
}

/// Decodes at most `max_values` DELTA_BINARY_PACKED lengths. Returns the offset after them, and
/// their sum.
fn sum_lengths(bytes: &[u8], max_values: u64) -> Option<(usize, u64)> {
    let mut offset = 0;
    let block_size = varint(bytes, &mut offset)?;
    let miniblocks = varint(bytes, &mut offset)?;
    let count = varint(bytes, &mut offset)?;
    let mut value = zigzag(varint(bytes, &mut offset)?);
    if count > max_values || miniblocks == 0 || miniblocks > block_size || block_size > MAX_BLOCK_SIZE {
        return None;
    }
    let miniblock_size = block_size / miniblocks;
    let mut remaining = count;
    let mut sum = 0u64;
    if remaining > 0 {
        sum = u64::try_from(value).ok()?;
        remaining -= 1;
    }
    while remaining > 0 {
        let min_delta = zigzag(varint(bytes, &mut offset)?);
        let bit_widths = offset..offset.checked_add(usize::try_from(miniblocks).ok()?)?;
        offset = bit_widths.end;
        for &width in bytes.get(bit_widths)? {
            if remaining == 0 {
                break;
            }
            let values = remaining.min(miniblock_size);
            let deltas = BitPacked {
                bytes: bytes.get(offset..)?,
                width: u64::from(width),
            };
            for index in 0..values {
                // Lengths are INT32, and deltas wrap.
                value = i64::from(
                    (value as i32)
                        .wrapping_add(min_delta as i32)
                        .wrapping_add(deltas.get(index)? as i32),
                );
                sum = sum.checked_add(u64::try_from(value).ok()?)?;
            }
            remaining -= values;
            // The last miniblock of a page may be truncated.
            offset = (offset + (miniblock_size * u64::from(width)).div_ceil(8) as usize).min(bytes.len());
        }
    }
    Some((offset, sum))
}

/// Bit-packed integers of equal width, least significant bit first.
struct BitPacked<'a> {
    bytes: &'a [u8],
    width: u64,
}

impl BitPacked<'_> {
    /// Returns value `index`. `None` past the end, or if the width exceeds 32 bits.
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

/// Reads a ULEB128 integer and advances `offset`.
fn varint(bytes: &[u8], offset: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*offset)?;
        *offset += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Decodes a zigzag integer.
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
                prop_assert_eq!(decoded_size(encoding, &values, texts.len() as u64), Some(bytes));
                prop_assert_eq!(decoded_size(encoding, &values, texts.len() as u64 - 1), None);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
                decoded_size(encoding, &bytes, 1000);
            }
        }
    }
}
