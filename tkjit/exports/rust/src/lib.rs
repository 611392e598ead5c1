//! KERNELS: kernels that tkjit exported.
//!
//! Each function checks its arguments and returns a `Result`. On a GPU it does not wait: the kernel runs in a stream.
//!
//! A kernel is trusted as any C function is that a safe wrapper calls: to stay within its tensors for all arguments that pass
//! the checks (an index among them is the spec's to constrain), and to write all elements of its outputs.

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

/// An error if the library is not the one that this crate was written for; each function asks once a process.
pub fn check_interface() -> Result<(), Error> {
    error::check(unsafe { ffi::LIBRARY_check_interface("INTERFACE\0".as_ptr() as *const std::ffi::c_char) })
}
