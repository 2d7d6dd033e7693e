//! KV snapshots: a session's tokens and cells as bytes, from which another process continues
//! identically.
//!
//! A header that identifies the model, then segments of up to [`SEGMENT`] tokens: their number,
//! whether they have the cells of windowed layers, the tokens, their cells layer by layer, and a
//! checksum of this segment and all before it. So segments can be appended, and a truncated or
//! corrupt file is valid up to that point: a segment counts only behind the segments it was written
//! behind. All values are in native byte order: a snapshot is for the machine that saved it.
//!
//! A layer whose cache releases the positions behind its window is saved where it still has them:
//! those before the last answer's window may be missing. A session can be restored at the end of a
//! segment if the segments before have the cells that the next token sees.

use crate::cache::{LayerCells, LayerGroup};
use crate::session::{Session, common_prefix};
use hearth_kernels::attention::{KvFormat, KvLayer};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Identifies the model and its adapters: a hash of everything that determines the cells.
pub type SnapshotKey = [u8; 32];

/// Magic bytes.
const MAGIC: [u8; 8] = *b"HearthKV";
/// The version of the file format; [`KvLayer::LAYOUT`] is the version of the cells.
const VERSION: u32 = 3;

/// Maximum tokens of a segment. After an edit, up to this many unchanged tokens are written again.
const SEGMENT: usize = 16 * KvLayer::TILE;

/// A session's state was not saved or restored. The user need not be told: the text remains, and
/// prefill recomputes the cells.
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
    segments: Vec<Segment>,
}

/// The end of a segment: total tokens, total bytes, and their checksum.
#[derive(Debug, Clone, Copy)]
struct Segment {
    tokens: usize,
    bytes: u64,
    sum: u32,
    /// The first token of this and the segments before it that all have the cells of windowed
    /// layers.
    windowed_from: usize,
}

/// The tokens of a segment, and the cells that it has.
struct Part<'a> {
    ids: &'a [u32],
    /// Whether it has the cells of layers that release positions.
    windowed: bool,
}

impl SavedCells {
    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The bytes they take, from the beginning; the rest is unused.
    pub fn bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.bytes)
    }

    /// Appends a segment that was read or written.
    fn add(&mut self, part: &Part, bytes: u64, sum: u32) {
        let from = match self.segments.last() {
            Some(last) => last.windowed_from,
            None => 0,
        };
        self.tokens.extend_from_slice(part.ids);
        self.segments.push(Segment {
            tokens: self.tokens.len(),
            bytes: self.bytes().max(HEAD as u64) + bytes,
            sum,
            windowed_from: if part.windowed { from } else { self.tokens.len() },
        });
    }

    /// The longest prefix, of at most `limit` tokens, that has the cells of windowed layers from
    /// `window` before its end.
    fn restorable(&self, limit: usize, window: usize) -> usize {
        let whole = |segment: &&Segment| {
            segment.tokens <= limit && segment.windowed_from <= (segment.tokens + 1).saturating_sub(window)
        };
        self.segments
            .iter()
            .rev()
            .find(whole)
            .map_or(0, |segment| segment.tokens)
    }

    /// The first token from which on all have the cells of windowed layers.
    fn windowed_from(&self) -> usize {
        self.segments.last().map_or(0, |last| last.windowed_from)
    }

    /// Truncates to the segments that are a prefix of `tokens`.
    pub fn cut(&mut self, tokens: &[u32]) {
        let same = common_prefix(&self.tokens, tokens);
        self.segments.retain(|segment| segment.tokens <= same);
        self.cut_tokens();
    }

    /// Truncates the tokens to the tokens of the segments.
    fn cut_tokens(&mut self) {
        self.tokens.truncate(self.segments.last().map_or(0, |last| last.tokens));
    }
}

impl Session {
    /// The tokens that [`Session::save`] would save: whole tiles of cells, without the last few.
    pub fn savable(&self) -> &[u32] {
        &self.tokens()[..self.tokens().len() / KvLayer::TILE * KvLayer::TILE]
    }

    /// Truncates `saved` to the segments that [`Session::save`] can continue: a prefix of this
    /// session, and with windowed layers none whose missing cells a restored session would need.
    pub fn cut(&self, saved: &mut SavedCells) {
        saved.cut(self.savable());
        let Some(window) = self.sequence.cache().window() else {
            return;
        };
        let (needed, written) = (
            (self.savable().len() + 1).saturating_sub(window),
            self.sequence.windowed_from(),
        );
        while saved.tokens.len() > written && saved.windowed_from() > needed {
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
        let head = if saved.segments.is_empty() { HEAD } else { 0 };
        let parts = self.parts(saved.tokens.len());
        head as u64 + parts.iter().map(|part| self.segment_bytes(part)).sum::<u64>()
    }

    /// The segments of the savable tokens from `first` on.
    fn parts(&self, first: usize) -> Vec<Part<'_>> {
        let ids = self.savable();
        let retained = self.sequence.windowed_from().clamp(first.min(ids.len()), ids.len());
        let part = |windowed| move |ids| Part { ids, windowed };
        let released = ids.get(first..retained).unwrap_or_default();
        let rest = ids.get(retained..).unwrap_or_default();
        released
            .chunks(SEGMENT)
            .map(part(false))
            .chain(rest.chunks(SEGMENT).map(part(true)))
            .collect()
    }

    /// Appends the state after `saved` in writes of up to a megabyte; `to` must be positioned at
    /// [`SavedCells::bytes`]. `saved` grows with each complete segment, so it marks the end of
    /// valid bytes if `to` fails. `key` identifies the model and its adapters.
    ///
    /// # Errors
    /// If `saved` is not a prefix of this session, layers are on a GPU, or `to` fails.
    pub fn save(&self, key: &SnapshotKey, saved: &mut SavedCells, to: &mut impl Write) -> Result<(), SnapshotError> {
        self.on_cpu()?;
        if !self.savable().starts_with(saved.tokens()) {
            return Err(SnapshotError::Other);
        }
        if saved.segments.is_empty() {
            to.write_all(&self.head(key))?;
        }
        for part in self.parts(saved.tokens.len()) {
            let mut to = self.summed(key, saved, &mut *to);
            let head = [part.ids.len() as u32, u32::from(part.windowed)];
            to.write_all(bytemuck::cast_slice(&head))?;
            to.write_all(bytemuck::cast_slice(part.ids))?;
            let first = saved.tokens.len();
            for (cells, tiles) in self.tiles(first..first + part.ids.len(), part.windowed)? {
                for bytes in cells.cpu().tiles(tiles).map_err(refused)? {
                    to.write_all(bytes)?;
                }
            }
            let sum = to.sum();
            to.write_all(&sum.to_ne_bytes())?;
            saved.add(&part, self.segment_bytes(&part), sum);
        }
        Ok(())
    }

    /// The cells of every layer, and the tiles of these positions in each of their pages;
    /// `windowed` includes layers that release positions.
    fn tiles(
        &self,
        positions: Range<usize>,
        windowed: bool,
    ) -> Result<Vec<(&LayerCells, Range<usize>)>, SnapshotError> {
        let (cache, mut all) = (self.sequence.cache(), Vec::new());
        for layer in 0..cache.layers() {
            let group = cache.group_of(layer).map_err(refused)?;
            if windowed || !cache.releases(group) {
                let cells = cache.cells(layer).map_err(refused)?;
                all.extend(
                    self.sequence
                        .tiles(group, positions.clone())
                        .map(|tiles| (cells, tiles)),
                );
            }
        }
        Ok(all)
    }

    /// The tokens that [`Session::restore`] would find if nothing is corrupt, up to the context
    /// length. Reads little and checks no sums.
    ///
    /// # Errors
    /// If the snapshot is of another model or format, or cannot be read.
    pub fn saved(&self, key: &SnapshotKey, from: &mut (impl Read + Seek)) -> Result<SavedCells, SnapshotError> {
        self.check_head(key, from)?;
        let mut saved = SavedCells::default();
        while let Some((ids, windowed)) = self.next_ids(&saved, from) {
            let part = Part { ids: &ids, windowed };
            let bytes = self.segment_bytes(&part);
            let end = saved.bytes().max(HEAD as u64) + bytes;
            let sum = from.seek(SeekFrom::Start(end - SUM as u64)).and_then(|_| read(from));
            let Ok(sum) = sum else { break };
            saved.add(&part, bytes, u32::from_ne_bytes(sum));
        }
        Ok(saved)
    }

    /// Restores a snapshot, without logits: the segments of the first `limit` tokens, up to the
    /// first that is truncated, corrupt or beyond the context. Returns the valid segments. The
    /// session then has their tokens, or none if their last has too few cells of windowed layers
    /// (see [`Session::restorable`]).
    ///
    /// # Errors
    /// As [`Session::saved`], or if layers are on a GPU; the session is then unchanged.
    pub fn restore(
        &mut self,
        key: &SnapshotKey,
        from: &mut impl Read,
        limit: usize,
    ) -> Result<SavedCells, SnapshotError> {
        self.on_cpu()?;
        self.check_head(key, from)?;
        self.clear();
        let mut saved = SavedCells::default();
        while saved.tokens.len() < limit {
            let mut from = self.summed(key, &saved, &mut *from);
            let Some((ids, windowed)) = self.next_ids(&saved, &mut from) else {
                break;
            };
            let part = Part { ids: &ids, windowed };
            let first = saved.tokens.len();
            // No room says nothing about the file.
            if let Err(error) = self.sequence.append(&ids) {
                self.clear();
                return Err(refused(error));
            }
            let sum = match self.read_cells(first..first + ids.len(), windowed, &mut from) {
                Ok(()) => Some(from.sum()),
                Err(_) => None,
            };
            if sum.is_none() || read(&mut from).map_or(true, |there| Some(u32::from_ne_bytes(there)) != sum) {
                break;
            }
            saved.add(&part, self.segment_bytes(&part), sum.unwrap_or_default());
        }
        let count = saved.tokens.len();
        self.sequence.discard_before(saved.windowed_from());
        if self.restorable(&saved, count) < count || !self.sequence.truncate(count) {
            self.clear();
        }
        Ok(saved)
    }

    /// The tokens of the next segment, and whether it has cells of windowed layers; `None` if it is
    /// invalid.
    fn next_ids(&self, saved: &SavedCells, from: &mut impl Read) -> Option<(Vec<u32>, bool)> {
        let count = u32::from_ne_bytes(read(from).ok()?) as usize;
        let windowed = u32::from_ne_bytes(read(from).ok()?);
        if count == 0 || count > SEGMENT || !count.is_multiple_of(KvLayer::TILE) || windowed > 1 {
            return None;
        }
        let mut ids = vec![0_u32; count];
        from.read_exact(bytemuck::cast_slice_mut(&mut ids)).ok()?;
        self.check(&ids, saved.tokens.len() + count).ok()?;
        Some((ids, windowed == 1))
    }

    /// Fills the cells of all layers, or of those that release no positions.
    fn read_cells(&self, positions: Range<usize>, windowed: bool, from: &mut impl Read) -> Result<(), SnapshotError> {
        for (cells, tiles) in self.tiles(positions, windowed)? {
            for bytes in cells.cpu().tiles_mut(tiles).map_err(refused)? {
                from.read_exact(bytes)?;
            }
        }
        Ok(())
    }

    /// Bytes of a segment.
    fn segment_bytes(&self, part: &Part) -> u64 {
        let (cache, tokens) = (self.sequence.cache(), part.ids.len());
        let of_group = |(number, group): (usize, &LayerGroup)| {
            if part.windowed || !cache.releases(number) {
                group.layers.len() * KvLayer::bytes_for(cache.format(), tokens, group.kv_heads, group.head_dim)
            } else {
                0
            }
        };
        let cells: usize = cache.groups().enumerate().map(of_group).sum();
        (size_of::<u32>() * (2 + tokens) + cells + SUM) as u64
    }

    fn on_cpu(&self) -> Result<(), SnapshotError> {
        match self.model.placement().gpu_layers() {
            0 => Ok(()),
            _ => Err(SnapshotError::OnGpu),
        }
    }

    fn check_head(&self, key: &SnapshotKey, from: &mut impl Read) -> Result<(), SnapshotError> {
        if read(from)? == self.head(key) {
            Ok(())
        } else {
            Err(SnapshotError::Other)
        }
    }

    /// The header: everything that must match for a restore.
    fn head(&self, key: &SnapshotKey) -> [u8; HEAD] {
        let config = self.model.config();
        let format = match self.cache_format() {
            KvFormat::F16 => 0,
            KvFormat::Q8_0 => 1,
        };
        let shape = [config.n_layers, config.kv_heads, config.head_dim].map(|size| size as u32);
        // Which layers release positions depends on the context.
        let releasing =
            (0..self.sequence.cache().groups().len()).filter(|group| self.sequence.cache().releases(*group));
        let releasing = releasing.fold(0_u32, |mask, group| mask | 1 << (group % 32));
        let numbers = [
            VERSION,
            KvLayer::LAYOUT,
            format,
            shape[0],
            shape[1],
            shape[2],
            releasing,
        ];
        let mut head = [0; HEAD];
        let parts = [&MAGIC[..], key, bytemuck::cast_slice(&numbers)];
        head.copy_from_slice(&parts.concat());
        head
    }

    /// A checksumming reader or writer that continues from `saved`.
    fn summed<T>(&self, key: &SnapshotKey, saved: &SavedCells, inner: T) -> Summed<T> {
        let before = match saved.segments.last() {
            Some(last) => last.sum,
            None => crc32fast::hash(&self.head(key)),
        };
        let sum = crc32fast::Hasher::new_with_initial(before);
        Summed { inner, sum }
    }
}

/// Bytes of [`Session::head`].
const HEAD: usize = size_of_val(&MAGIC) + size_of::<SnapshotKey>() + 7 * size_of::<u32>();
/// Bytes of a checksum.
const SUM: usize = size_of::<u32>();

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The tokens were checked against the available cells.
fn refused(error: impl std::error::Error + Send + Sync + 'static) -> SnapshotError {
    SnapshotError::Io(io::Error::other(error))
}

/// A reader or writer with a running checksum.
struct Summed<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl<T> Summed<T> {
    /// The checksum so far.
    fn sum(&self) -> u32 {
        self.sum.clone().finalize()
    }
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.sum.update(&bytes[..read]);
        Ok(read)
    }
}
