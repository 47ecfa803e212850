//! Stable storage (§2.5): entries that are appended, synced, and found again after a crash.
//!
//! An entry is its length, a checksum and JSON. What a crash left half-written was never relied on: it is cut off.

use std::io;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sim_io::fs::{self, File};

/// An open journal of entries of type `T`.
pub struct Journal<T> {
    file: File,
    entries: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens or creates the file in the root folder, and reads what is whole.
    pub async fn open(name: &str) -> io::Result<(Self, Vec<T>)> {
        let file = File::options().read(true).append(true).create(true).open(name).await?;
        fs::sync_dir("/").await?;
        let bytes = fs::read(name).await?;
        let (mut entries, mut rest) = (Vec::new(), bytes.as_slice());
        while let Some((entry, behind)) = first_entry(rest) {
            entries.push(entry);
            rest = behind;
        }
        file.set_len((bytes.len() - rest.len()) as u64).await?;
        // After a kill, whole entries may be in the page cache only.
        file.sync_data().await?;
        Ok((Self { file, entries: PhantomData }, entries))
    }

    /// Appends an entry. It is durable after [`Journal::sync`].
    pub async fn append(&self, entry: &T) -> io::Result<()> {
        let body = serde_json::to_vec(entry)?;
        let head = [(body.len() as u32).to_le_bytes(), crc32fast::hash(&body).to_le_bytes()];
        self.file.append(&[&head.concat(), body.as_slice()].concat()).await.map(drop)
    }

    /// Makes durable what was appended.
    pub async fn sync(&self) -> io::Result<()> {
        self.file.sync_data().await
    }
}

fn first_entry<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (body, behind) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let whole = crc32fast::hash(body) == u32::from_le_bytes(*checksum);
    Some((serde_json::from_slice(body).ok().filter(|_| whole)?, behind))
}
