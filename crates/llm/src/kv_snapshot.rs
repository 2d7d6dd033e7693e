//! KV snapshots: a session's tokens and cells as bytes, from which another process continues
//! identically.
//!
//! A header that identifies the model, then segments of up to [`SEGMENT`] tokens: their number, the
//! tokens, their cells layer by layer, and a checksum of this segment and all before it. So
//! segments can be appended, and a truncated or corrupt file is valid up to that point: a segment
//! counts only behind the segments it was written behind. All values are in native byte order: a
//! snapshot is for the machine that saved it.

use crate::session::Session;
use hearth_kernels::attention::{KvFormat, KvLayer};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Identifies the model and its adapters: a hash of everything that determines the cells.
pub type SnapshotKey = [u8; 32];

/// Magic bytes.
const MAGIC: [u8; 8] = *b"HearthKV";
/// The format version; [`KvLayer::LAYOUT`] is that of the cells.
const VERSION: u32 = 2;

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
    fn add(&mut self, ids: &[u32], bytes: u64, sum: u32) {
        self.tokens.extend_from_slice(ids);
        self.segments.push(Segment {
            tokens: self.tokens.len(),
            bytes: self.bytes().max(HEAD as u64) + bytes,
            sum,
        });
    }

    /// Truncates to the segments that are a prefix of `tokens`.
    pub fn cut(&mut self, tokens: &[u32]) {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        self.segments.retain(|segment| segment.tokens <= same);
        self.tokens.truncate(self.segments.last().map_or(0, |last| last.tokens));
    }
}

impl Session {
    /// The tokens that [`Session::save`] would save: whole tiles of cells, without the last few.
    pub fn savable(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() / KvLayer::TILE * KvLayer::TILE]
    }

    /// Bytes that [`Session::save`] would append to `saved`.
    pub fn bytes_to_save(&self, saved: &SavedCells) -> u64 {
        let head = if saved.segments.is_empty() { HEAD } else { 0 };
        let rest = self.savable().get(saved.tokens.len()..).unwrap_or_default();
        head as u64
            + rest
                .chunks(SEGMENT)
                .map(|ids| self.segment_bytes(ids.len()))
                .sum::<u64>()
    }

    /// Appends the state after `saved` in writes of up to a megabyte; `to` must be positioned at
    /// [`SavedCells::bytes`]. `saved` grows with each complete segment, so it marks the end of
    /// valid bytes if `to` fails. `key` identifies the model and its adapters.
    ///
    /// # Errors
    /// If `saved` is not a prefix of this session, layers are on a GPU, or `to` fails.
    pub fn save(&self, key: &SnapshotKey, saved: &mut SavedCells, to: &mut impl Write) -> Result<(), SnapshotError> {
        self.on_cpu()?;
        let rest = self.savable().strip_prefix(saved.tokens());
        let rest = rest.ok_or(SnapshotError::Other)?;
        if saved.segments.is_empty() {
            to.write_all(&self.head(key))?;
        }
        for ids in rest.chunks(SEGMENT) {
            let mut to = self.summed(key, saved, &mut *to);
            to.write_all(&(ids.len() as u32).to_ne_bytes())?;
            to.write_all(bytemuck::cast_slice(ids))?;
            for layer in 0..self.model.config().n_layers {
                let layer = self.pool.layer(layer);
                for part in layer.tiles(tiles(saved, ids)).map_err(refused)? {
                    to.write_all(part)?;
                }
            }
            let sum = to.sum();
            to.write_all(&sum.to_ne_bytes())?;
            saved.add(ids, self.segment_bytes(ids.len()), sum);
        }
        Ok(())
    }

    /// The tokens that [`Session::restore`] would find if nothing is corrupt, up to the context
    /// length. Reads little and checks no sums.
    ///
    /// # Errors
    /// If the snapshot is of another model or format, or cannot be read.
    pub fn saved(&self, key: &SnapshotKey, from: &mut (impl Read + Seek)) -> Result<SavedCells, SnapshotError> {
        self.check_head(key, from)?;
        let mut saved = SavedCells::default();
        while let Some(ids) = self.next_ids(&saved, from) {
            let segment = self.segment_bytes(ids.len());
            let end = saved.bytes().max(HEAD as u64) + segment;
            let sum = from.seek(SeekFrom::Start(end - SUM as u64)).and_then(|_| read(from));
            let Ok(sum) = sum else { break };
            saved.add(&ids, segment, u32::from_ne_bytes(sum));
        }
        Ok(saved)
    }

    /// Restores a snapshot, without logits: the segments of the first `limit` tokens, up to the
    /// first that is truncated, corrupt or beyond the context. Returns the restored tokens.
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
        self.tokens.clear();
        self.logits.clear();
        let mut saved = SavedCells::default();
        while saved.tokens.len() < limit {
            let mut from = self.summed(key, &saved, &mut *from);
            let Some(ids) = self.next_ids(&saved, &mut from) else {
                break;
            };
            if self.read_cells(tiles(&saved, &ids), &mut from).is_err() {
                break;
            }
            let sum = from.sum();
            if read(&mut from).map_or(true, |there| u32::from_ne_bytes(there) != sum) {
                break;
            }
            saved.add(&ids, self.segment_bytes(ids.len()), sum);
        }
        self.tokens.extend_from_slice(&saved.tokens);
        Ok(saved)
    }

    /// The tokens of the next segment, or `None` if it is invalid.
    fn next_ids(&self, saved: &SavedCells, from: &mut impl Read) -> Option<Vec<u32>> {
        let count = u32::from_ne_bytes(read(from).ok()?) as usize;
        if count == 0 || count > SEGMENT || !count.is_multiple_of(KvLayer::TILE) {
            return None;
        }
        let mut ids = vec![0_u32; count];
        from.read_exact(bytemuck::cast_slice_mut(&mut ids)).ok()?;
        self.check(&ids, saved.tokens.len() + count).ok()?;
        Some(ids)
    }

    /// Fills cells of all layers.
    fn read_cells(&mut self, tiles: Range<usize>, from: &mut impl Read) -> Result<(), SnapshotError> {
        for layer in 0..self.model.config().n_layers {
            let mut layer = self.pool.layer(layer);
            for part in layer.tiles_mut(tiles.clone()).map_err(refused)? {
                from.read_exact(part)?;
            }
        }
        Ok(())
    }

    /// Bytes of a segment.
    fn segment_bytes(&self, tokens: usize) -> u64 {
        let config = self.model.config();
        let layer = KvLayer::bytes_for(self.cache_format(), tokens, config.kv_heads, config.head_dim);
        (size_of::<u32>() * (1 + tokens) + config.n_layers * layer + SUM) as u64
    }

    fn on_cpu(&self) -> Result<(), SnapshotError> {
        match self.model.placement().gpu_layers() {
            0 => Ok(()),
            _ => Err(SnapshotError::OnGpu),
        }
    }

    fn check_head(&self, key: &SnapshotKey, from: &mut impl Read) -> Result<(), SnapshotError> {
        match read(from)? == self.head(key) {
            true => Ok(()),
            false => Err(SnapshotError::Other),
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
        let numbers = [VERSION, KvLayer::LAYOUT, format, shape[0], shape[1], shape[2]];
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
const HEAD: usize = size_of_val(&MAGIC) + size_of::<SnapshotKey>() + 6 * size_of::<u32>();
/// Bytes of a checksum.
const SUM: usize = size_of::<u32>();

/// The tiles of the tokens after the saved ones.
fn tiles(saved: &SavedCells, ids: &[u32]) -> Range<usize> {
    let first = saved.tokens.len() / KvLayer::TILE;
    first..first + ids.len() / KvLayer::TILE
}

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The tokens were checked against the available cells.
fn refused(error: hearth_kernels::ShapeError) -> SnapshotError {
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
