//! Exclusive access that may be held across awaits, given in order of arrival.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use super::Notify;

/// A lock for tasks of one world.
#[derive(Debug)]
pub struct Mutex<T> {
    value: RefCell<T>,
    free: Notify,
}

impl<T> Mutex<T> {
    /// A lock that is free.
    pub fn new(value: T) -> Self {
        let free = Notify::new();
        free.notify_one();
        Self { value: RefCell::new(value), free }
    }

    /// Waits until the lock is free and takes it.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        self.free.notified().await;
        MutexGuard { value: Some(self.value.borrow_mut()), free: &self.free }
    }
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    /// `None` only while the guard is being dropped.
    value: Option<RefMut<'a, T>>,
    free: &'a Notify,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_deref().expect("the guard holds the value until it is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("the guard holds the value until it is dropped")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.free.notify_one();
    }
}
