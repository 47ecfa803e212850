//! A file as a stream: the `futures::io` traits, through the handle's cursor.
//!
//! Invariants: nothing here ever waits, for the page cache takes no virtual time; a flush or close syncs
//! nothing, as in the operating system.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::errors;
use super::file::File;

impl AsyncRead for &File {
    fn poll_read(self: Pin<&mut Self>, _cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let open = self.simulated();
        let read = open.read_at(into, open.cursor.get());
        if let Ok(count) = read {
            open.cursor.set(open.cursor.get() + count as u64);
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for &File {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.simulated().write_at_cursor(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for &File {
    fn poll_seek(self: Pin<&mut Self>, _cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        let open = self.simulated();
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => open.cursor.get().checked_add_signed(by),
            SeekFrom::End(by) => open.len()?.checked_add_signed(by),
        };
        let target = target.ok_or_else(errors::bad_seek)?;
        open.cursor.set(target);
        Poll::Ready(Ok(target))
    }
}

impl AsyncRead for File {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(cx, into)
    }
}

impl AsyncWrite for File {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(cx)
    }
}

impl AsyncSeek for File {
    fn poll_seek(self: Pin<&mut Self>, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        Pin::new(&mut &*self).poll_seek(cx, to)
    }
}
