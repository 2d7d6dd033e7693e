//! KV snapshots: a session's tokens and cells as bytes, from which another process continues with
//! the same bits.
//!
//! A snapshot is a header that identifies the model, then segments of up to [`MAX_SEGMENT`] tokens.
//! A segment is the number of tokens, a flag for the cells of windowed layers, the tokens, their
//! cells layer by layer, and a checksum of the header and all segments up to this one. So segments
//! can be appended, and a truncated or corrupt file is valid up to the damage. All values are in
//! native byte order, since only the machine that saved a snapshot restores it.
//!
//! A layer that releases the positions behind its sliding window is saved without the released
//! ones. A session can be restored at the end of a segment if the segments up to it have the cells
//! in the window of the next token.

use crate::cache::{LayerCells, LayerGroup};
use crate::session::{Session, common_prefix};
use hearth_kernels::attention::{KvFormat, KvLayer};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Identifies the model and its adapters: a hash of everything that determines the cells.
pub type SnapshotKey = [u8; 32];

/// Magic bytes.
const MAGIC: [u8; 8] = *b"HearthKV";
/// The version of the file format. [`KvLayer::LAYOUT`] is the version of the cells.
const VERSION: u32 = 4;

/// Maximum tokens of a segment. After an edit, fewer unchanged tokens than this are written again.
const MAX_SEGMENT: usize = 16 * KvLayer::TILE;

/// A session was not saved or restored. The user is not told, since prefill recomputes the cells
/// from the text.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes cannot be read or written, or are truncated.
    #[error("it cannot be read or written ({0})")]
    Io(#[from] io::Error),
    /// The snapshot is of another model, format, version of Hearth, or other tokens.
    #[error("it was saved with another model, another KV cache format or another version of Hearth")]
    Other,
    /// Layers are on a GPU, whose cells are not saved.
    #[error("some of the model's layers are on a GPU")]
    OnGpu,
}

/// The saved tokens of a session, segment by segment. The default is empty.
#[derive(Debug, Default)]
pub struct SavedCells {
    tokens: Vec<u32>,
    segments: Vec<SegmentEnd>,
}

/// The position at the end of a segment.
#[derive(Debug, Clone, Copy)]
struct SegmentEnd {
    /// Tokens up to here.
    tokens: usize,
    /// Bytes up to here.
    bytes: u64,
    /// The checksum of these bytes.
    checksum: u32,
    /// All tokens from this one up to here have the cells of windowed layers.
    windowed_from: usize,
}

/// A segment to write or read.
struct Segment<'a> {
    ids: &'a [u32],
    /// Whether it has the cells of windowed layers, which release positions.
    has_windowed: bool,
}

impl SavedCells {
    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The bytes of the header and the segments. Bytes behind them are not part of the snapshot.
    pub fn bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.bytes)
    }

    /// Appends a segment that was read or written.
    fn add(&mut self, segment: &Segment, bytes: u64, checksum: u32) {
        let windowed_from = self.windowed_from();
        self.tokens.extend_from_slice(segment.ids);
        self.segments.push(SegmentEnd {
            tokens: self.tokens.len(),
            bytes: self.bytes().max(HEADER_BYTES as u64) + bytes,
            checksum,
            windowed_from: if segment.has_windowed {
                windowed_from
            } else {
                self.tokens.len()
            },
        });
    }

    /// The length of the longest prefix of at most `limit` tokens, at the end of a segment, that
    /// has the cells of windowed layers in the window of the next token.
    fn restorable(&self, limit: usize, window: usize) -> usize {
        let is_restorable =
            |end: &&SegmentEnd| end.tokens <= limit && end.windowed_from <= (end.tokens + 1).saturating_sub(window);
        self.segments
            .iter()
            .rev()
            .find(is_restorable)
            .map_or(0, |end| end.tokens)
    }

    /// All tokens from this one on have the cells of windowed layers.
    fn windowed_from(&self) -> usize {
        self.segments.last().map_or(0, |last| last.windowed_from)
    }

    /// Truncates to the segments that are a prefix of `tokens`.
    pub fn cut(&mut self, tokens: &[u32]) {
        let shared = common_prefix(&self.tokens, tokens);
        self.segments.retain(|end| end.tokens <= shared);
        self.cut_tokens();
    }

    /// Truncates the tokens to the end of the last segment.
    fn cut_tokens(&mut self) {
        self.tokens.truncate(self.segments.last().map_or(0, |last| last.tokens));
    }
}

impl Session {
    /// The tokens that [`Session::save`] would save. They fill whole tiles of cells, so the last
    /// few tokens of the session may be missing.
    pub fn savable(&self) -> &[u32] {
        &self.tokens()[..self.tokens().len() / KvLayer::TILE * KvLayer::TILE]
    }

    /// Truncates `saved` to the segments that [`Session::save`] can continue: they are a prefix of
    /// this session. Segments that lack cells of windowed layers which a restored session needs are
    /// removed too, if this session has these cells.
    pub fn cut(&self, saved: &mut SavedCells) {
        saved.cut(self.savable());
        let Some(window) = self.sequence.cache().window() else {
            return;
        };
        let first_needed = (self.savable().len() + 1).saturating_sub(window);
        let first_written = self.sequence.windowed_from();
        while saved.tokens.len() > first_written && saved.windowed_from() > first_needed {
            saved.segments.pop();
            saved.cut_tokens();
        }
    }

    /// The number of tokens of `saved`, at most `limit`, that can be restored.
    pub fn restorable(&self, saved: &SavedCells, limit: usize) -> usize {
        match self.sequence.cache().window() {
            Some(window) => saved.restorable(limit, window),
            None => limit.min(saved.tokens.len()),
        }
    }

    /// Bytes that [`Session::save`] would append to `saved`.
    pub fn bytes_to_save(&self, saved: &SavedCells) -> u64 {
        let header = if saved.segments.is_empty() { HEADER_BYTES } else { 0 };
        let segments = self.segments_from(saved.tokens.len());
        header as u64 + segments.iter().map(|segment| self.segment_bytes(segment)).sum::<u64>()
    }

    /// The segments of the savable tokens from `first` on.
    fn segments_from(&self, first: usize) -> Vec<Segment<'_>> {
        let ids = self.savable();
        let windowed_from = self.sequence.windowed_from().clamp(first.min(ids.len()), ids.len());
        let segment = |has_windowed| move |ids| Segment { ids, has_windowed };
        let without_windowed = ids.get(first..windowed_from).unwrap_or_default();
        let with_windowed = ids.get(windowed_from..).unwrap_or_default();
        without_windowed
            .chunks(MAX_SEGMENT)
            .map(segment(false))
            .chain(with_windowed.chunks(MAX_SEGMENT).map(segment(true)))
            .collect()
    }

    /// Appends the state after `saved`, in writes of up to a megabyte. `to` must be positioned at
    /// [`SavedCells::bytes`]. `saved` grows with each complete segment, so that it is valid if `to`
    /// fails. `key` identifies the model and its adapters.
    ///
    /// # Errors
    /// If `saved` is not a prefix of this session, layers are on a GPU, or `to` fails.
    pub fn save(&self, key: &SnapshotKey, saved: &mut SavedCells, to: &mut impl Write) -> Result<(), SnapshotError> {
        self.check_on_cpu()?;
        if !self.savable().starts_with(saved.tokens()) {
            return Err(SnapshotError::Other);
        }
        if saved.segments.is_empty() {
            to.write_all(&self.header(key))?;
        }
        for segment in self.segments_from(saved.tokens.len()) {
            let mut to = self.checksummed(key, saved, &mut *to);
            let numbers = [segment.ids.len() as u32, u32::from(segment.has_windowed)];
            to.write_all(bytemuck::cast_slice(&numbers))?;
            to.write_all(bytemuck::cast_slice(segment.ids))?;
            let first = saved.tokens.len();
            for (cells, tiles) in self.tiles(first..first + segment.ids.len(), segment.has_windowed)? {
                for bytes in cells.cpu().tiles(tiles).map_err(io_error)? {
                    to.write_all(bytes)?;
                }
            }
            let checksum = to.checksum();
            to.write_all(&checksum.to_ne_bytes())?;
            saved.add(&segment, self.segment_bytes(&segment), checksum);
        }
        Ok(())
    }

    /// The tiles of these positions in each layer, as one range per page. Windowed layers are
    /// included if `has_windowed` is set.
    fn tiles(
        &self,
        positions: Range<usize>,
        has_windowed: bool,
    ) -> Result<Vec<(&LayerCells, Range<usize>)>, SnapshotError> {
        let (cache, mut layer_tiles) = (self.sequence.cache(), Vec::new());
        for layer in 0..cache.layers() {
            let group = cache.group_of(layer).map_err(io_error)?;
            if has_windowed || !cache.releases(group) {
                let cells = cache.cells(layer).map_err(io_error)?;
                layer_tiles.extend(
                    self.sequence
                        .tiles(group, positions.clone())
                        .map(|tiles| (cells, tiles)),
                );
            }
        }
        Ok(layer_tiles)
    }

    /// The tokens that [`Session::restore`] would return if nothing is corrupt, up to the context
    /// length. Reads no cells and verifies no checksums.
    ///
    /// # Errors
    /// If the snapshot is of another model or format, or cannot be read.
    pub fn saved(&self, key: &SnapshotKey, from: &mut (impl Read + Seek)) -> Result<SavedCells, SnapshotError> {
        self.check_header(key, from)?;
        let mut saved = SavedCells::default();
        while let Some((ids, has_windowed)) = self.read_tokens(&saved, from) {
            let segment = Segment {
                ids: &ids,
                has_windowed,
            };
            let bytes = self.segment_bytes(&segment);
            let end = saved.bytes().max(HEADER_BYTES as u64) + bytes;
            let checksum = from
                .seek(SeekFrom::Start(end - CHECKSUM_BYTES as u64))
                .and_then(|_| read(from));
            let Ok(checksum) = checksum else { break };
            saved.add(&segment, bytes, u32::from_ne_bytes(checksum));
        }
        Ok(saved)
    }

    /// Restores a snapshot without logits: the segments of the first `limit` tokens, up to the
    /// first segment that is truncated, corrupt or beyond the context. Returns the valid segments.
    /// The session then has their tokens, or none if cells of windowed layers are missing (see
    /// [`Session::restorable`]).
    ///
    /// # Errors
    /// As [`Session::saved`], or if layers are on a GPU; the session is then unchanged.
    pub fn restore(
        &mut self,
        key: &SnapshotKey,
        from: &mut impl Read,
        limit: usize,
    ) -> Result<SavedCells, SnapshotError> {
        self.check_on_cpu()?;
        self.check_header(key, from)?;
        self.clear();
        let mut saved = SavedCells::default();
        while saved.tokens.len() < limit {
            let mut from = self.checksummed(key, &saved, &mut *from);
            let Some((ids, has_windowed)) = self.read_tokens(&saved, &mut from) else {
                break;
            };
            let segment = Segment {
                ids: &ids,
                has_windowed,
            };
            let first = saved.tokens.len();
            // A full cache is an error, since the file may be valid.
            if let Err(error) = self.sequence.append(&ids) {
                self.clear();
                return Err(io_error(error));
            }
            let checksum = match self.read_cells(first..first + ids.len(), has_windowed, &mut from) {
                Ok(()) => Some(from.checksum()),
                Err(_) => None,
            };
            if checksum.is_none() || read(&mut from).map_or(true, |bytes| Some(u32::from_ne_bytes(bytes)) != checksum) {
                break;
            }
            saved.add(&segment, self.segment_bytes(&segment), checksum.unwrap_or_default());
        }
        let count = saved.tokens.len();
        self.sequence.discard_before(saved.windowed_from());
        if self.restorable(&saved, count) < count || !self.sequence.truncate(count) {
            self.clear();
        }
        Ok(saved)
    }

    /// Reads the tokens of the next segment, and whether it has the cells of windowed layers.
    /// `None` if the segment is invalid.
    fn read_tokens(&self, saved: &SavedCells, from: &mut impl Read) -> Option<(Vec<u32>, bool)> {
        let count = u32::from_ne_bytes(read(from).ok()?) as usize;
        let has_windowed = u32::from_ne_bytes(read(from).ok()?);
        if count == 0 || count > MAX_SEGMENT || !count.is_multiple_of(KvLayer::TILE) || has_windowed > 1 {
            return None;
        }
        let mut ids = vec![0_u32; count];
        from.read_exact(bytemuck::cast_slice_mut(&mut ids)).ok()?;
        self.check(&ids, saved.tokens.len() + count).ok()?;
        Some((ids, has_windowed == 1))
    }

    /// Reads the cells of these positions. Windowed layers are included if `has_windowed` is set.
    fn read_cells(
        &self,
        positions: Range<usize>,
        has_windowed: bool,
        from: &mut impl Read,
    ) -> Result<(), SnapshotError> {
        for (cells, tiles) in self.tiles(positions, has_windowed)? {
            for bytes in cells.cpu().tiles_mut(tiles).map_err(io_error)? {
                from.read_exact(bytes)?;
            }
        }
        Ok(())
    }

    /// The size of a segment in bytes.
    fn segment_bytes(&self, segment: &Segment) -> u64 {
        let (cache, tokens) = (self.sequence.cache(), segment.ids.len());
        let group_bytes = |(index, group): (usize, &LayerGroup)| {
            if segment.has_windowed || !cache.releases(index) {
                group.layers.len() * KvLayer::bytes_for(cache.format(), tokens, group.kv_heads, group.head_dim)
            } else {
                0
            }
        };
        let cells: usize = cache.groups().enumerate().map(group_bytes).sum();
        (size_of::<u32>() * (2 + tokens) + cells + CHECKSUM_BYTES) as u64
    }

    fn check_on_cpu(&self) -> Result<(), SnapshotError> {
        match self.model.placement().gpu_layers() {
            0 => Ok(()),
            _ => Err(SnapshotError::OnGpu),
        }
    }

    fn check_header(&self, key: &SnapshotKey, from: &mut impl Read) -> Result<(), SnapshotError> {
        if read(from)? == self.header(key) {
            Ok(())
        } else {
            Err(SnapshotError::Other)
        }
    }

    /// The header, which must match for a restore.
    fn header(&self, key: &SnapshotKey) -> [u8; HEADER_BYTES] {
        let config = self.model.config();
        let format = match self.cache_format() {
            KvFormat::F16 => 0,
            KvFormat::Q8_0 => 1,
        };
        // The key identifies the model, so one group is enough.
        let [kv_heads, head_dim] = self.model.groups().first().map_or([0; 2], LayerGroup::shape);
        let shape = [config.n_layers(), kv_heads, head_dim].map(|size| size as u32);
        // With a short context, windowed layers release no positions.
        let releasing =
            (0..self.sequence.cache().groups().len()).filter(|group| self.sequence.cache().releases(*group));
        let releasing_mask = releasing.fold(0_u32, |mask, group| mask | 1 << (group % 32));
        let numbers = [
            VERSION,
            KvLayer::LAYOUT,
            format,
            shape[0],
            shape[1],
            shape[2],
            releasing_mask,
            self.model.rope_identity() as u32,
        ];
        let mut header = [0; HEADER_BYTES];
        let parts = [&MAGIC[..], key, bytemuck::cast_slice(&numbers)];
        header.copy_from_slice(&parts.concat());
        header
    }

    /// A reader or writer whose checksum continues from the end of `saved`.
    fn checksummed<T>(&self, key: &SnapshotKey, saved: &SavedCells, inner: T) -> Checksummed<T> {
        let initial = match saved.segments.last() {
            Some(last) => last.checksum,
            None => crc32fast::hash(&self.header(key)),
        };
        let hasher = crc32fast::Hasher::new_with_initial(initial);
        Checksummed { inner, hasher }
    }
}

/// Bytes of [`Session::header`].
const HEADER_BYTES: usize = size_of_val(&MAGIC) + size_of::<SnapshotKey>() + size_of::<[u32; 8]>();
/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = size_of::<u32>();

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn io_error(error: impl std::error::Error + Send + Sync + 'static) -> SnapshotError {
    SnapshotError::Io(io::Error::other(error))
}

/// A reader or writer with a running CRC-32 checksum.
struct Checksummed<T> {
    inner: T,
    hasher: crc32fast::Hasher,
}

impl<T> Checksummed<T> {
    /// The checksum of all bytes up to the current position.
    fn checksum(&self) -> u32 {
        self.hasher.clone().finalize()
    }
}

impl<T: Write> Write for Checksummed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Checksummed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.hasher.update(&bytes[..read]);
        Ok(read)
    }
}
