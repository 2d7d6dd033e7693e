//! A session's state as bytes, from which a session of another process goes on as this one would
//! have.
//!
//! A head that says what the cells belong to, then segments of up to [`SEGMENT`] tokens: how many,
//! the tokens, their cells layer by layer, and a checksum of everything so far, of this segment and
//! of all before it. So more can be appended at any time, and what ends somewhere or is damaged
//! somewhere is good up to there: a segment only counts behind the very ones it was written behind.
//! All in the machine's own order of bytes: what a machine saves is for itself.

use crate::session::Session;
use hearth_kernels::attention::{KvFormat, KvLayer};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Names the model, with its adapters, that made the cells: any hash of what goes into them.
pub type SnapshotKey = [u8; 32];

/// How the bytes begin.
const MAGIC: [u8; 8] = *b"HearthKV";
/// Goes up when the bytes change their form; [`KvLayer::LAYOUT`] is that of the cells.
const VERSION: u32 = 2;

/// Tokens of a segment at most. Where a conversation is edited, up to so many are written again
/// that were as they should be.
const SEGMENT: usize = 16 * KvLayer::TILE;

/// A session's state was not saved or restored. A person need not hear of it: the text is there,
/// and can be read again.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes cannot be read or written, or end early.
    #[error("its bytes cannot be read or written ({0})")]
    Io(#[from] io::Error),
    /// The cells are another model's, in another format, or of another version of Hearth; or they
    /// are other tokens'.
    #[error("it was saved with another model, another kind of cache or another version of Hearth")]
    Other,
    /// Layers lie on a GPU, whose cells are not saved.
    #[error("the model is not all with the processor")]
    OnGpu,
}

/// What there is of a session in bytes that were saved: the tokens, segment by segment. The default
/// is of bytes that hold nothing yet.
#[derive(Debug, Default)]
pub struct SavedCells {
    tokens: Vec<u32>,
    segments: Vec<Segment>,
}

/// Where a segment ends: after so many tokens and bytes of all, which have this checksum.
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

    /// How many bytes they take, from the beginning; what follows is of no use.
    pub fn bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.bytes)
    }

    /// Adds a segment that was read or written behind the others.
    fn add(&mut self, ids: &[u32], bytes: u64, sum: u32) {
        self.tokens.extend_from_slice(ids);
        self.segments.push(Segment {
            tokens: self.tokens.len(),
            bytes: self.bytes().max(HEAD as u64) + bytes,
            sum,
        });
    }

    /// Leaves the segments that `tokens` begin with.
    pub fn cut(&mut self, tokens: &[u32]) {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        self.segments.retain(|segment| segment.tokens <= same);
        self.tokens.truncate(self.segments.last().map_or(0, |last| last.tokens));
    }
}

impl Session {
    /// The tokens that [`Session::save`] would save: as many as fill whole tiles of cells, all but
    /// the last few.
    pub fn savable(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() / KvLayer::TILE * KvLayer::TILE]
    }

    /// Bytes that [`Session::save`] would write behind what is `saved`.
    pub fn bytes_to_save(&self, saved: &SavedCells) -> u64 {
        let head = if saved.segments.is_empty() { HEAD } else { 0 };
        let rest = self.savable().get(saved.tokens.len()..).unwrap_or_default();
        head as u64
            + rest
                .chunks(SEGMENT)
                .map(|ids| self.segment_bytes(ids.len()))
                .sum::<u64>()
    }

    /// Writes the state in pieces of up to a megabyte, without what is `saved` already, behind
    /// which `to` has to stand: at [`SavedCells::bytes`]. `saved` grows with each segment that is
    /// whole, and says where bytes of use end should `to` fail. `key` names the model with its
    /// adapters.
    ///
    /// # Errors
    /// What is saved is not what this session begins with, layers are on a GPU, or `to` refuses a
    /// piece.
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

    /// What [`Session::restore`] would find if nothing is damaged, as far as the context reaches.
    /// Reads little, and trusts it.
    ///
    /// # Errors
    /// What was saved is another model's or of another form, or cannot be read.
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

    /// Becomes what [`Session::save`] saved, without logits: the segments that hold the first
    /// `wanted` tokens, up to the first that is not whole, is damaged or does not fit the context.
    /// Gives what was restored.
    ///
    /// # Errors
    /// As [`Session::saved`], or layers are on a GPU; the session is as it was then.
    pub fn restore(
        &mut self,
        key: &SnapshotKey,
        from: &mut impl Read,
        wanted: usize,
    ) -> Result<SavedCells, SnapshotError> {
        self.on_cpu()?;
        self.check_head(key, from)?;
        self.tokens.clear();
        self.logits.clear();
        let mut saved = SavedCells::default();
        while saved.tokens.len() < wanted {
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

    /// The tokens that the next segment begins with; none where that cannot be one.
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

    /// All that has to be the same where a state is restored.
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

    /// What goes through it is summed up behind what is saved.
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

/// Where the cells of the tokens behind those that are saved lie.
fn tiles(saved: &SavedCells, ids: &[u32]) -> Range<usize> {
    let first = saved.tokens.len() / KvLayer::TILE;
    first..first + ids.len() / KvLayer::TILE
}

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Tokens were checked against the cells there are.
fn refused(error: hearth_kernels::ShapeError) -> SnapshotError {
    SnapshotError::Io(io::Error::other(error))
}

/// Sums up what goes through it.
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
