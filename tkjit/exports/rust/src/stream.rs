//! Streams.

use std::ffi::c_void;

use crate::error::{check, ready, Error};
use crate::ffi;
use crate::types::Device;

/// Orders the work on a GPU.
pub struct Stream {
    device: Device,
    pub(crate) pointer: *mut c_void,
}

unsafe impl Send for Stream {}

impl Stream {
    pub fn new(device: Device) -> Result<Self, Error> {
        ready()?;
        let mut pointer = std::ptr::null_mut();
        check(unsafe { ffi::tkjit_stream_new(device.c(), &mut pointer) })?;
        Ok(Stream { device, pointer })
    }

    /// Waits until everything that was launched in the stream is done.
    pub fn wait(&self) -> Result<(), Error> {
        check(unsafe { ffi::tkjit_stream_wait(self.device.c(), self.pointer) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = check(unsafe { ffi::tkjit_stream_free(self.device.c(), self.pointer) });
    }
}

/// The pointer of a stream; null is the default stream.
pub(crate) fn pointer_of(stream: Option<&Stream>) -> *mut c_void {
    stream.map_or(std::ptr::null_mut(), |stream| stream.pointer)
}
