//! Builds raw, possibly invalid GGUF headers.

/// The bytes of a header so far.
#[derive(Clone)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    pub fn header(tensors: u64, keys: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(3).u64(tensors).u64(keys)
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn text(self, text: &str) -> Self {
        let mut raw = self.u64(text.len() as u64);
        raw.0.extend(text.as_bytes());
        raw
    }

    /// Appends a key whose value is an array of `count` elements of a type, without the elements.
    pub fn array(self, key: &str, element: u32, count: u64) -> Self {
        self.text(key).u32(9).u32(element).u64(count)
    }
}
