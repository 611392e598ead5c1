//! Errors, and whether the library is the right one.

use std::ffi::{c_char, CStr};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ffi;

/// What a function of the library refused, or what failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// An argument of the wrong type, dtype, device or layout.
    Argument,
    /// Extents that contradict each other, a constraint or the kernel.
    Shape,
    /// The launch failed, or the kernel did.
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

/// Takes an error of C's over.
pub(crate) fn check(error: *mut c_char) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // of C's: a text that ends with a zero, which is ours to free
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

/// Whether the library is the one that this crate was written for: asked before anything else of it is called.
pub(crate) fn ready() -> Result<(), Error> {
    if !IS_READY.load(Ordering::Relaxed) {
        crate::check_interface()?;
        IS_READY.store(true, Ordering::Relaxed);
    }
    Ok(())
}
