//! KERNELS: kernels exported by tkjit.
//!
//! Each function checks its arguments and returns a `Result`. On a GPU it does not wait for the kernel, which
//! runs in a stream.
//!
//! A kernel is trusted like any C function that a safe wrapper calls. For all arguments that pass the checks, it must stay
//! within its tensors and write all elements of its outputs. If an argument is an index, the spec must constrain it.

mod error;
mod ffi;
mod kernels;
mod stream;
mod tensor;
mod types;

pub use error::{Error, ErrorKind};
pub use kernels::*;
pub use stream::Stream;
pub use tensor::Tensor;
pub use types::{device_count, DType, Device, Element, Seed};

/// Returns an error if the library does not match this crate. The functions check this once per process.
pub fn check_interface() -> Result<(), Error> {
    error::check(unsafe { ffi::LIBRARY_check_interface("INTERFACE\0".as_ptr() as *const std::ffi::c_char) })
}
