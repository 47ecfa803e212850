//! What a timer does when its time has come.

use std::task::Waker;

use slab::Slab;

use crate::device::DeviceId;
use crate::node::NodeId;
use crate::waker::TaskRef;

/// What a timer does when its time has come.
#[derive(Debug)]
pub(crate) enum Fire {
    /// Wakes a task.
    Task(TaskRef),
    /// Wakes what is no task of a world: one of the futures that a task keeps several of.
    Wake(Waker),
    /// Calls a device with a token of its own choosing.
    Device(DeviceId, u64),
    /// Lets the held wakes of a node go.
    Release(NodeId),
}

impl Fire {
    /// Wakes whom `waker` wakes.
    #[inline]
    pub(crate) fn waking(waker: &Waker) -> Self {
        match TaskRef::of(waker) {
            Some(task) => Self::Task(task),
            None => Self::Wake(waker.clone()),
        }
    }
}

/// The same in two words, which go through registers: what is written by bytes and read as a whole stalls the processor.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Packed {
    /// The kind in the lowest byte; above it which device or node.
    what: u64,
    /// The task, the token, or the place of the waker among `wakers`.
    arg: u64,
}

impl Packed {
    /// It has fired or was cancelled.
    pub(crate) const NOTHING: Self = Self { what: 0, arg: 0 };
    const TASK: u64 = 1;
    const WAKE: u64 = 2;
    const DEVICE: u64 = 3;
    const RELEASE: u64 = 4;

    #[inline]
    pub(crate) fn of(fire: Fire, wakers: &mut Slab<Waker>) -> Self {
        match fire {
            Fire::Task(task) => Self { what: Self::TASK, arg: task.bits() },
            Fire::Device(id, token) => Self { what: Self::DEVICE | u64::from(id.0) << 8, arg: token },
            Fire::Release(node) => Self { what: Self::RELEASE | u64::from(node.0) << 8, arg: 0 },
            Fire::Wake(waker) => Self { what: Self::WAKE, arg: keep(waker, wakers) },
        }
    }

    /// `None` for nothing, and for a waker that is not there any more.
    #[inline]
    pub(crate) fn open(self, wakers: &mut Slab<Waker>) -> Option<Fire> {
        let Self { what, arg } = self;
        match what & 0xFF {
            Self::TASK => Some(Fire::Task(TaskRef::from_bits(arg))),
            Self::DEVICE => Some(Fire::Device(DeviceId((what >> 8) as u8), arg)),
            Self::RELEASE => Some(Fire::Release(NodeId((what >> 8) as u16))),
            Self::WAKE => wakers.try_remove(arg as usize).map(Fire::Wake),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn is_nothing(self) -> bool {
        self.what == 0
    }

    /// Whether it wakes somebody, rather than calling a device or releasing a node.
    pub(crate) fn wakes(self) -> bool {
        matches!(self.what, Self::TASK | Self::WAKE)
    }
}

#[cold]
fn keep(waker: Waker, wakers: &mut Slab<Waker>) -> u64 {
    wakers.insert(waker) as u64
}
