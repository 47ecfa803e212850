//! Halves of a stream, so that one task reads while another writes.
//!
//! Invariants: the stream is closed when both halves are gone; a writing half that goes ends its direction.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures::io::{AsyncRead, AsyncWrite};

use super::stream::TcpStream;

/// The reading half of a borrowed stream.
#[derive(Debug)]
pub struct ReadHalf<'a> {
    pub(super) stream: &'a TcpStream,
}

/// The writing half of a borrowed stream.
#[derive(Debug)]
pub struct WriteHalf<'a> {
    pub(super) stream: &'a TcpStream,
}

/// The reading half of a stream.
#[derive(Debug)]
pub struct OwnedReadHalf {
    stream: Rc<TcpStream>,
}

/// The writing half of a stream.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Rc<TcpStream>,
}

pub(super) fn into_halves(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Rc::new(stream);
    (OwnedReadHalf { stream: stream.clone() }, OwnedWriteHalf { stream })
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        let mut stream = &*self.stream;
        // Closing never waits; what is not connected any more has ended already.
        let _ = Pin::new(&mut stream).poll_close(&mut Context::from_waker(std::task::Waker::noop()));
    }
}

macro_rules! reads {
    ($half:ty) => {
        impl AsyncRead for $half {
            #[inline]
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self.stream).poll_read(cx, buffer)
            }
        }
    };
}

macro_rules! writes {
    ($half:ty) => {
        impl AsyncWrite for $half {
            #[inline]
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self.stream).poll_write(cx, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self.stream).poll_flush(cx)
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self.stream).poll_close(cx)
            }
        }
    };
}

reads!(ReadHalf<'_>);
reads!(OwnedReadHalf);
writes!(WriteHalf<'_>);
writes!(OwnedWriteHalf);
