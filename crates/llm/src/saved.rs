//! A session's state as bytes, from which a session of another process goes on as this one would have.
//!
//! A head that says what the cells belong to, the tokens, the cells layer by layer, and a checksum of it all, in the machine's own order
//! of bytes: what a machine saves is for itself.

use crate::error::SessionError;
use crate::session::Session;
use hearth_kernels::attention::{KvFormat, KvLayer};
use std::io::{self, Read, Write};

/// Names the model, with its adapters, that made the cells: any hash of what goes into them.
pub type SavedKey = [u8; 32];

/// How the bytes begin.
const MAGIC: [u8; 8] = *b"HearthKV";
/// Goes up when the bytes change their form; [`KvLayer::LAYOUT`] is that of the cells.
const VERSION: u32 = 1;

/// A session's state was not saved or restored. A person need not hear of it: the text is there, and can be read again.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The bytes cannot be read or written, or end early.
    #[error("its bytes cannot be read or written ({0})")]
    Io(#[from] io::Error),
    /// The cells are another model's, in another format, or of another version of Hearth.
    #[error("it was saved with another model, another kind of cache or another version of Hearth")]
    Other,
    /// The bytes are not those that were saved.
    #[error("it is damaged")]
    Damaged,
    /// Layers lie on a GPU, whose cells are not saved.
    #[error("the model is not all with the processor")]
    OnGpu,
    /// The tokens do not fit the session.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Session {
    /// The tokens that [`Session::save`] would save: as many as fill whole tiles of cells, all but the last few.
    pub fn savable(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() / KvLayer::TILE * KvLayer::TILE]
    }

    /// Bytes that [`Session::save`] would write, but for a hundred.
    pub fn savable_bytes(&self) -> u64 {
        let (config, tokens) = (self.model.config(), self.savable());
        let layer = KvLayer::bytes_for(self.cache_format(), tokens.len(), config.kv_heads, config.head_dim);
        (size_of_val(tokens) + config.n_layers * layer) as u64
    }

    /// Writes the state, in pieces of up to some megabytes. `key` names the model with its adapters.
    ///
    /// # Errors
    /// Layers are on a GPU, or `to` refuses a piece; what it has then is of no use.
    pub fn save(&self, key: &SavedKey, to: &mut impl Write) -> Result<(), SavedError> {
        self.on_cpu()?;
        let tokens = self.savable();
        let mut to = Summed::new(to);
        to.write_all(&self.head(key))?;
        to.write_all(&(tokens.len() as u64).to_ne_bytes())?;
        to.write_all(bytemuck::cast_slice(tokens))?;
        for layer in 0..self.model.config().n_layers {
            let layer = self.pool.layer(layer);
            for part in layer.tiles(tokens.len() / KvLayer::TILE).map_err(refused)? {
                to.write_all(part)?;
            }
        }
        let sum = to.sum();
        Ok(to.write_all(&sum)?)
    }

    /// The tokens that [`Session::restore`] would restore if nothing is damaged; reads the beginning alone.
    ///
    /// # Errors
    /// What was saved is another model's or of another form, has more tokens than the context holds, or cannot be read.
    pub fn saved_tokens(&self, key: &SavedKey, from: &mut impl Read) -> Result<Vec<u32>, SavedError> {
        let head = self.head(key);
        if read::<{ HEAD }>(from)? != head {
            return Err(SavedError::Other);
        }
        let tokens = usize::try_from(u64::from_ne_bytes(read(from)?)).unwrap_or(usize::MAX);
        self.check(&[], tokens)?;
        let mut ids = vec![0_u32; tokens];
        from.read_exact(bytemuck::cast_slice_mut(&mut ids))?;
        self.check(&ids, tokens)?;
        Ok(ids)
    }

    /// Becomes what [`Session::save`] saved, without logits.
    ///
    /// # Errors
    /// As [`Session::saved_tokens`], or layers are on a GPU; the session is as it was then. Or the bytes are damaged: it is empty.
    pub fn restore(&mut self, key: &SavedKey, from: &mut impl Read) -> Result<(), SavedError> {
        self.on_cpu()?;
        let mut from = Summed::new(from);
        let tokens = self.saved_tokens(key, &mut from)?;
        self.tokens.clear();
        self.logits.clear();
        for layer in 0..self.model.config().n_layers {
            let mut layer = self.pool.layer(layer);
            for part in layer.tiles_mut(tokens.len() / KvLayer::TILE).map_err(refused)? {
                from.read_exact(part)?;
            }
        }
        let sum = from.sum();
        if read(&mut from)? != sum {
            return Err(SavedError::Damaged);
        }
        self.tokens = tokens;
        Ok(())
    }

    fn on_cpu(&self) -> Result<(), SavedError> {
        match self.model.placement().gpu_layers() {
            0 => Ok(()),
            _ => Err(SavedError::OnGpu),
        }
    }

    /// All that has to be the same where a state is restored.
    fn head(&self, key: &SavedKey) -> [u8; HEAD] {
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
}

/// Bytes of [`Session::head`].
const HEAD: usize = size_of_val(&MAGIC) + size_of::<SavedKey>() + 6 * size_of::<u32>();

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Tokens were checked against the cells there are.
fn refused(error: hearth_kernels::ShapeError) -> SavedError {
    SavedError::Io(io::Error::other(error))
}

/// Sums up what goes through it.
struct Summed<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl<T> Summed<T> {
    fn new(inner: T) -> Self {
        let sum = crc32fast::Hasher::new();
        Self { inner, sum }
    }

    /// The checksum so far.
    fn sum(&self) -> [u8; 4] {
        self.sum.clone().finalize().to_ne_bytes()
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
