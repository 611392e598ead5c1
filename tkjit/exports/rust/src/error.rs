//! Errors, and the check that the library matches this crate.

use std::ffi::{c_char, CStr};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ffi;

/// Why a call was rejected or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// An argument with the wrong type, dtype, device or layout.
    Argument,
    /// Extents that contradict each other, a constraint or the kernel.
    Shape,
    /// The launch or the kernel failed.
    Launch,
    Memory,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Argument, text: text.into() }
    }

    pub(crate) fn shape(text: String) -> Self {
        Error { kind: ErrorKind::Shape, text }
    }
}

/// Converts a C error, and frees it.
pub(crate) fn check(error: *mut c_char) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // C returns a text that ends with a NUL character, and that the caller frees
    let (kind, text) = unsafe { (ffi::tkjit_error_kind(error), CStr::from_ptr(error).to_string_lossy().into_owned()) };
    unsafe { ffi::tkjit_free_error(error) };
    let kind = match kind {
        1 => ErrorKind::Argument,
        2 => ErrorKind::Shape,
        4 => ErrorKind::Memory,
        _ => ErrorKind::Launch,
    };
    Err(Error { kind, text })
}

static IS_READY: AtomicBool = AtomicBool::new(false);

/// Checks that the library matches this crate, before any other function of it is called.
pub(crate) fn ready() -> Result<(), Error> {
    if !IS_READY.load(Ordering::Relaxed) {
        crate::check_interface()?;
        IS_READY.store(true, Ordering::Relaxed);
    }
    Ok(())
}
