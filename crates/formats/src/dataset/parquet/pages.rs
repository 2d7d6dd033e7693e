//! Reads and decompresses the pages of a column within limits. The parquet crate's own reader
//! allocates whatever a page header claims.

use super::super::source::RandomAccess;
use super::delta;
use super::error::invalid;
use super::limits::Limits;
use super::thrift::{Field, Fields, Thrift, ThriftError};
use parquet::basic::{Compression, Encoding, PageType, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescPtr;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum size of a page in bytes, compressed or not.
const MAX_PAGE: usize = 256 << 20;

/// Maximum size of a page header in bytes; some contain complete strings as statistics.
const MAX_PAGE_HEADER: usize = 8 << 20;

/// Maximum number of list entries decoded at once, of one or a few rows.
const MAX_LIST_ENTRIES: usize = 4 << 20;

/// Maximum number of dictionary entries.
const MAX_DICTIONARY: u64 = 4 << 20;

/// Maximum number of values of a delta-encoded page, which are decoded at once.
const MAX_DELTA_VALUES: u64 = 8 << 20;

/// Maximum decoded bytes of the delta-encoded strings of a page.
const MAX_DELTA_TEXT: u64 = 128 << 20;

/// Uncompressed bytes counted per list entry.
const ENTRY_WORK: u64 = 64;

/// Counters of the data decoded since the column's values were last consumed.
#[derive(Default)]
pub(super) struct DecodeCounters {
    is_reset: AtomicBool,
    entries: AtomicUsize,
    texts: AtomicUsize,
    page: AtomicUsize,
}

impl DecodeCounters {
    /// Resets the counters.
    pub fn begin(&self) {
        self.is_reset.store(true, Ordering::Relaxed);
        self.entries.store(0, Ordering::Relaxed);
        self.texts.store(0, Ordering::Relaxed);
    }

    /// Bytes of strings decoded into separate allocations.
    pub fn texts(&self) -> usize {
        self.texts.load(Ordering::Relaxed)
    }

    /// Takes up to `max_values` values of the current page; returns 0 at its end.
    pub fn take(&self, max_values: usize) -> usize {
        let remaining = self.page.load(Ordering::Relaxed);
        let taken = remaining.min(max_values);
        self.page.store(remaining - taken, Ordering::Relaxed);
        taken
    }
}

/// Page reader of a column chunk.
pub(super) struct Pages {
    file: Arc<RandomAccess>,
    limits: Arc<Limits>,
    counters: Arc<DecodeCounters>,
    column: ColumnDescPtr,
    codec: Codec,
    offset: u64,
    end: u64,
    /// The header of the next page, if already read.
    next: Option<Header>,
    has_dictionary: bool,
    /// Bytes of the pages since values were last consumed, and of the last page.
    in_memory: usize,
    last: usize,
    dictionary: usize,
}

enum Codec {
    None,
    Snappy,
    Zstd(zstd::bulk::Decompressor<'static>),
}

impl Pages {
    pub fn new(
        file: &Arc<RandomAccess>,
        limits: &Arc<Limits>,
        counters: &Arc<DecodeCounters>,
        chunk: &ColumnChunkMetaData,
    ) -> Result<Self> {
        let codec = match chunk.compression() {
            Compression::SNAPPY => Codec::Snappy,
            Compression::ZSTD(_) => Codec::Zstd(zstd::bulk::Decompressor::new()?),
            _ => Codec::None,
        };
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let offset = u64::try_from(start)?;
        let length = u64::try_from(chunk.compressed_size())?;
        Ok(Self {
            file: Arc::clone(file),
            limits: Arc::clone(limits),
            counters: Arc::clone(counters),
            column: chunk.column_descr_ptr(),
            codec,
            offset,
            end: offset.saturating_add(length).min(file.len()),
            next: None,
            has_dictionary: false,
            in_memory: 0,
            last: 0,
            dictionary: 0,
        })
    }

    /// Peeks at the header of the next page with values; `None` at the end.
    fn peek(&mut self) -> Result<Option<Header>> {
        while self.next.is_none() && self.offset < self.end {
            let header = self.header()?;
            if header.kind == INDEX {
                self.offset = header.data + header.packed as u64;
            } else {
                self.next = Some(header);
            }
        }
        Ok(self.next)
    }

    fn header(&self) -> Result<Header> {
        let remaining = (self.end - self.offset) as usize;
        let mut window = 512;
        loop {
            let bytes = self.file.read(self.offset, window.min(remaining))?;
            let mut thrift = Thrift::new(&bytes);
            match Header::read(&mut thrift, self.offset) {
                Ok(header) if header.data + header.packed as u64 <= self.end => return Ok(header),
                Err(ThriftError::End) if window < remaining && window < MAX_PAGE_HEADER => window *= 16,
                _ => return Err(invalid("a page header is malformed")),
            }
        }
    }

    /// Releases the pages whose values were consumed.
    fn release_decoded(&mut self) {
        if self.counters.is_reset.swap(false, Ordering::Relaxed) {
            self.limits.release_pages(self.in_memory - self.last);
            self.in_memory = self.last;
        }
    }

    /// Reads and decompresses a page.
    fn unpacked(&mut self, header: &Header) -> Result<bytes::Bytes> {
        if header.packed.max(header.size) > MAX_PAGE {
            return Err(invalid(&format!(
                "one of its pages has more than {} MiB",
                MAX_PAGE >> 20
            )));
        }
        let is_packed = header.is_compressed && !matches!(self.codec, Codec::None);
        let bytes = header.packed + if is_packed { header.size } else { 0 };
        self.limits.reserve_pages(bytes)?;
        self.in_memory += bytes;
        self.limits.count_unpacked(bytes as u64)?;
        let packed = self.file.read(header.data, header.packed)?;
        if packed.len() != header.packed {
            return Err(invalid("it is truncated"));
        }
        let levels = header.level_bytes()?;
        if levels > header.size || levels > packed.len() {
            return Err(invalid("a page header is malformed"));
        }
        let wrong_size = || invalid("the size of a page does not match its header");
        let unpacked = match &mut self.codec {
            _ if !is_packed => return Ok(packed),
            Codec::None => return Ok(packed),
            Codec::Snappy => {
                let value_bytes = header.size - levels;
                if value_bytes > 0 && snap::raw::decompress_len(&packed[levels..]).ok() != Some(value_bytes) {
                    return Err(wrong_size());
                }
                let mut unpacked = vec![0; header.size];
                unpacked[..levels].copy_from_slice(&packed[..levels]);
                if value_bytes > 0 {
                    let mut snappy = snap::raw::Decoder::new();
                    let result = snappy.decompress(&packed[levels..], &mut unpacked[levels..]);
                    result.map_err(|error| ParquetError::External(Box::new(error)))?;
                }
                unpacked
            }
            Codec::Zstd(zstd) => {
                let mut unpacked = Vec::with_capacity(header.size);
                unpacked.extend_from_slice(&packed[..levels]);
                if header.size > levels {
                    let mut cursor = Cursor::new(&mut unpacked);
                    cursor.set_position(levels as u64);
                    zstd.decompress_to_buffer(&packed[levels..], &mut cursor)?;
                }
                unpacked
            }
        };
        if unpacked.len() != header.size {
            return Err(wrong_size());
        }
        Ok(unpacked.into())
    }

    fn page(&mut self, header: Header) -> Result<Page> {
        self.release_decoded();
        let before = self.in_memory;
        let buf = self.unpacked(&header)?;
        let bytes = self.in_memory - before;
        let encoding = encoding(header.encoding)?;
        let num_values = u32::try_from(header.values)?;
        if header.kind == DICTIONARY {
            self.check_dictionary(&header, &buf)?;
            self.dictionary += bytes;
            // A dictionary page is retained.
            self.in_memory -= bytes;
            return Ok(Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                is_sorted: false,
            });
        }
        self.last = bytes;
        self.counters.page.store(num_values as usize, Ordering::Relaxed);
        self.check_values(&header, encoding, &buf)?;
        Ok(match header.kind {
            DATA => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: self::encoding(header.definition)?,
                rep_level_encoding: self::encoding(header.repetition)?,
                statistics: None,
            },
            _ => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: u32::try_from(header.nulls)?,
                num_rows: u32::try_from(header.rows)?,
                def_levels_byte_len: u32::try_from(header.definition)?,
                rep_levels_byte_len: u32::try_from(header.repetition)?,
                is_compressed: header.is_compressed,
                statistics: None,
            },
        })
    }

    /// Checks a dictionary, whose entries are allocated by the count in its header.
    fn check_dictionary(&mut self, header: &Header, buf: &[u8]) -> Result<()> {
        let width = match self.column.physical_type() {
            Type::FIXED_LEN_BYTE_ARRAY => self.column.type_length().max(0) as u64,
            Type::BYTE_ARRAY | Type::INT32 | Type::FLOAT => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::BOOLEAN => 1,
        };
        let count = header.values;
        if width == 0 || count > MAX_DICTIONARY || count.saturating_mul(width) > buf.len() as u64 || self.has_dictionary
        {
            return Err(invalid("a dictionary is malformed"));
        }
        self.has_dictionary = true;
        let entry = size_of::<parquet::data_type::ByteArray>();
        let bytes = count as usize * entry;
        self.limits.reserve_pages(bytes)?;
        self.dictionary += bytes;
        Ok(())
    }

    fn check_values(&mut self, header: &Header, encoding: Encoding, buf: &[u8]) -> Result<()> {
        let malformed = || invalid("a page is malformed");
        let in_dictionary = matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        if in_dictionary && !self.has_dictionary {
            return Err(invalid("a dictionary is missing"));
        }
        if self.column.max_rep_level() > 0 {
            let entries = usize::try_from(header.values)?;
            let entries = self.counters.entries.fetch_add(entries, Ordering::Relaxed) + entries;
            if entries > MAX_LIST_ENTRIES {
                return Err(invalid("one of its rows has too many entries"));
            }
            self.limits.count_unpacked(header.values * ENTRY_WORK)?;
        }
        if matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY) {
            let max_values = header.values.min(MAX_DELTA_VALUES);
            let offset = self.values_at(header, buf).ok_or_else(malformed)?;
            let size = delta::decoded_size(encoding, &buf[offset..], max_values).ok_or_else(malformed)?;
            if size > MAX_DELTA_TEXT {
                return Err(invalid("one of its pages decompresses to too much text"));
            }
            self.counters.texts.fetch_add(size as usize, Ordering::Relaxed);
            if self.counters.texts() as u64 > MAX_DELTA_TEXT {
                return Err(invalid("one of its rows is too long"));
            }
            self.limits.count_unpacked(size + header.values * 16)?;
        }
        Ok(())
    }

    /// The offset of the values in a page, after the levels.
    fn values_at(&self, header: &Header, buf: &[u8]) -> Option<usize> {
        if header.kind == DATA_V2 {
            return header.level_bytes().ok().filter(|&at| at <= buf.len());
        }
        let mut offset = 0usize;
        for (max_level, encoding) in [
            (self.column.max_rep_level(), header.repetition),
            (self.column.max_def_level(), header.definition),
        ] {
            if max_level > 0 {
                // Other level encodings are deprecated; no writer combines them with delta
                // encodings.
                if encoding != Encoding::RLE as i64 {
                    return None;
                }
                let length = buf.get(offset..)?.first_chunk::<4>()?;
                offset = offset
                    .checked_add(4)?
                    .checked_add(u32::from_le_bytes(*length) as usize)?;
            }
        }
        (offset <= buf.len()).then_some(offset)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.limits.release_pages(self.in_memory + self.dictionary);
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(header) = self.peek()? else {
            return Ok(None);
        };
        self.next = None;
        self.offset = header.data + header.packed as u64;
        self.page(header).map(Some)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let Some(header) = self.peek()? else {
            return Ok(None);
        };
        Ok(Some(PageMetadata {
            num_rows: (header.kind == DATA_V2).then_some(usize::try_from(header.rows)?),
            num_levels: (header.kind != DICTIONARY).then_some(usize::try_from(header.values)?),
            is_dict: header.kind == DICTIONARY,
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(|_| ())
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        // Only version 2 data pages are guaranteed to begin at a row.
        Ok(self.peek()?.is_none_or(|header| header.kind == DATA_V2))
    }
}

/// Page types.
const DATA: i64 = PageType::DATA_PAGE as i64;
const INDEX: i64 = PageType::INDEX_PAGE as i64;
const DICTIONARY: i64 = PageType::DICTIONARY_PAGE as i64;
const DATA_V2: i64 = PageType::DATA_PAGE_V2 as i64;

/// A page header (`PageHeader`).
#[derive(Debug, Clone, Copy, Default)]
struct Header {
    kind: i64,
    /// Uncompressed size, and compressed size in the file, in bytes.
    size: usize,
    packed: usize,
    values: u64,
    nulls: u64,
    rows: u64,
    encoding: i64,
    /// Encoding of the levels; for version 2 pages, their lengths in bytes.
    definition: i64,
    repetition: i64,
    is_compressed: bool,
    /// Offset of its data in the file.
    data: u64,
}

impl Header {
    fn read(thrift: &mut Thrift, offset: u64) -> std::result::Result<Self, ThriftError> {
        let mut header = Self {
            kind: -1,
            is_compressed: true,
            ..Self::default()
        };
        let mut inner = None;
        let size = |number: i64| usize::try_from(number).map_err(|_| ThriftError::Malformed);
        let mut fields = Fields::default();
        while let Some(field) = thrift.field(&mut fields)? {
            match field.id {
                1 => header.kind = thrift.number(&field)?,
                2 => header.size = size(thrift.number(&field)?)?,
                3 => header.packed = size(thrift.number(&field)?)?,
                5 | 7 | 8 => {
                    header.data_header(thrift, &field)?;
                    inner = Some(field.id);
                }
                _ => thrift.skip(field.kind)?,
            }
        }
        let expected = match header.kind {
            DATA => Some(5),
            INDEX => inner,
            DICTIONARY => Some(7),
            DATA_V2 => Some(8),
            _ => return Err(ThriftError::Malformed),
        };
        if inner != expected {
            return Err(ThriftError::Malformed);
        }
        header.data = offset + thrift.position() as u64;
        Ok(header)
    }

    /// `DataPageHeader`, `DictionaryPageHeader` or `DataPageHeaderV2`.
    fn data_header(&mut self, thrift: &mut Thrift, outer: &Field) -> std::result::Result<(), ThriftError> {
        if outer.kind != super::thrift::STRUCT {
            return Err(ThriftError::Malformed);
        }
        let count = |number: i64| u64::try_from(number).map_err(|_| ThriftError::Malformed);
        let mut fields = Fields::default();
        while let Some(field) = thrift.field(&mut fields)? {
            match (outer.id, field.id) {
                (_, 1) => self.values = count(thrift.number(&field)?)?,
                (5 | 7, 2) | (8, 4) => self.encoding = thrift.number(&field)?,
                (5, 3) | (8, 5) => self.definition = thrift.number(&field)?,
                (5, 4) | (8, 6) => self.repetition = thrift.number(&field)?,
                (8, 2) => self.nulls = count(thrift.number(&field)?)?,
                (8, 3) => self.rows = count(thrift.number(&field)?)?,
                (8, 7) => self.is_compressed = thrift.flag(&field)?,
                _ => thrift.skip(field.kind)?,
            }
        }
        Ok(())
    }

    /// Bytes of uncompressed levels before the compressed data.
    fn level_bytes(&self) -> Result<usize> {
        if self.kind != DATA_V2 {
            return Ok(0);
        }
        Ok(usize::try_from(self.definition)?.saturating_add(usize::try_from(self.repetition)?))
    }
}

fn encoding(number: i64) -> Result<Encoding> {
    let variant = Encoding::VARIANTS.iter().find(|encoding| **encoding as i64 == number);
    variant.copied().ok_or_else(|| invalid("it uses an unknown encoding"))
}
