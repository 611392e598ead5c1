//! Tensors.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use crate::error::{check, ready, Error};
use crate::ffi;
use crate::types::{DType, Device, Element, DTYPES};

/// A tensor that owns its memory, or a view of a slice that lives for `'a`.
pub struct Tensor<'a> {
    pub(crate) c: ffi::tkjit_tensor,
    borrowed: PhantomData<&'a mut [u8]>,
}

// Its memory may be used from any thread, and is written only through `&mut`.
unsafe impl Send for Tensor<'_> {}
unsafe impl Sync for Tensor<'_> {}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        let _ = check(unsafe { ffi::tkjit_tensor_free(&mut self.c) });
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?}, {:?}, {})", self.sizes(), self.dtype(), self.device())
    }
}

impl<'a> Tensor<'a> {
    /// A tensor without memory: an output before a function allocates it.
    pub(crate) fn none() -> Self {
        Tensor { c: ffi::tkjit_tensor::default(), borrowed: PhantomData }
    }

    /// A new tensor, filled with zeros.
    pub fn zeros(dtype: DType, sizes: &[i64], device: Device) -> Result<Tensor<'static>, Error> {
        let host = Tensor::uninitialised(dtype, sizes, Device::Cpu)?;
        let bytes = unsafe { ffi::tkjit_tensor_bytes(&host.c) } as usize;
        if bytes > 0 {
            unsafe { std::ptr::write_bytes(host.c.data as *mut u8, 0, bytes) };
        }
        if device == Device::Cpu {
            return Ok(host);
        }
        host.to(device)
    }

    // The elements must not be read before they are written.
    fn uninitialised(dtype: DType, sizes: &[i64], device: Device) -> Result<Tensor<'static>, Error> {
        ready()?;
        let mut made = Tensor::none();
        let ndim = sizes.len() as i32;
        check(unsafe { ffi::tkjit_tensor_new(&mut made.c, dtype as i32, device.c(), ndim, sizes.as_ptr()) })?;
        Ok(made)
    }

    /// A new tensor on the CPU with a copy of a slice.
    pub fn from_slice<T: Element>(elements: &[T], sizes: &[i64]) -> Result<Tensor<'static>, Error> {
        let mut made = Tensor::zeros(T::DTYPE, sizes, Device::Cpu)?;
        let into = made.as_mut_slice::<T>()?;
        if into.len() != elements.len() {
            let (got, expected) = (elements.len(), into.len());
            return Err(Error::shape(format!("from_slice: got {got} elements; expected {expected} for the sizes {sizes:?}")));
        }
        into.copy_from_slice(elements);
        Ok(made)
    }

    /// A new tensor on the CPU with elements of any type, copied from bytes: two for each `Float16` or `BFloat16`.
    pub fn from_bytes(dtype: DType, elements: &[u8], sizes: &[i64]) -> Result<Tensor<'static>, Error> {
        let mut made = Tensor::zeros(dtype, sizes, Device::Cpu)?;
        let into = made.as_mut_bytes()?;
        if into.len() != elements.len() {
            let (got, expected) = (elements.len(), into.len());
            return Err(Error::shape(format!(
                "from_bytes: got {got} bytes; expected {expected} for the sizes {sizes:?} of {dtype:?}"
            )));
        }
        into.copy_from_slice(elements);
        Ok(made)
    }

    /// A view of a slice. A kernel that writes to the view changes the slice.
    pub fn view<T: Element>(elements: &'a mut [T], sizes: &[i64]) -> Result<Tensor<'a>, Error> {
        let data = elements.as_mut_ptr() as *mut c_void;
        // the memory is a slice's, and its size is compared below
        let made = unsafe { Tensor::from_raw(data, T::DTYPE, sizes, Device::Cpu)? };
        if unsafe { ffi::tkjit_tensor_bytes(&made.c) } as usize != std::mem::size_of_val(elements) {
            let got = elements.len();
            return Err(Error::shape(format!("view: got {got} elements; expected as many as the sizes {sizes:?} need")));
        }
        Ok(made)
    }

    /// A row-major view of the caller's memory, on the CPU or a GPU.
    ///
    /// # Safety
    ///
    /// The memory must hold that many elements and outlive the tensor, and nothing else may use it during that time.
    pub unsafe fn from_raw(data: *mut c_void, dtype: DType, sizes: &[i64], device: Device) -> Result<Tensor<'a>, Error> {
        ready()?;
        let mut made = Tensor::none();
        let ndim = sizes.len() as i32;
        let row_major = std::ptr::null();
        check(ffi::tkjit_tensor_view(&mut made.c, data, dtype as i32, device.c(), ndim, sizes.as_ptr(), row_major))?;
        Ok(made)
    }

    /// A copy on a device, which is complete when this returns.
    pub fn to(&self, device: Device) -> Result<Tensor<'static>, Error> {
        let made = Tensor::uninitialised(self.dtype(), self.sizes(), device)?;
        check(unsafe { ffi::tkjit_tensor_copy(&made.c, &self.c, std::ptr::null_mut()) })?;
        Ok(made)
    }

    pub fn dtype(&self) -> DType {
        DTYPES[self.c.dtype as usize]
    }

    pub fn device(&self) -> Device {
        if self.c.device.kind == 0 { Device::Cpu } else { Device::Cuda(self.c.device.index) }
    }

    pub fn sizes(&self) -> &[i64] {
        &self.c.sizes[..self.c.ndim as usize]
    }

    /// The address of the bytes of a row-major tensor on the CPU, and their number.
    fn memory(&self) -> Result<(*mut c_void, usize), Error> {
        if self.device() != Device::Cpu {
            return Err(Error::argument(format!("the tensor is on {}; expected it on cpu", self.device())));
        }
        if !unsafe { ffi::tkjit_tensor_is_contiguous(&self.c) } {
            return Err(Error::argument("the tensor is not contiguous"));
        }
        let bytes = unsafe { ffi::tkjit_tensor_bytes(&self.c) } as usize;
        // an empty slice also needs an address, one that is aligned for all types
        let nothing = std::ptr::NonNull::<u128>::dangling().as_ptr() as *mut c_void;
        Ok((if bytes == 0 { nothing } else { self.c.data }, bytes))
    }

    fn elements<T: Element>(&self) -> Result<(*mut T, usize), Error> {
        if self.dtype() != T::DTYPE {
            return Err(Error::argument(format!("the tensor is {:?}; expected {:?}", self.dtype(), T::DTYPE)));
        }
        let (data, bytes) = self.memory()?;
        Ok((data as *mut T, bytes / std::mem::size_of::<T>()))
    }

    /// The elements of a row-major tensor on the CPU.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        let (data, count) = self.elements::<T>()?;
        Ok(unsafe { std::slice::from_raw_parts(data, count) })
    }

    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], Error> {
        let (data, count) = self.elements::<T>()?;
        Ok(unsafe { std::slice::from_raw_parts_mut(data, count) })
    }

    /// The same as bytes, for elements of any type.
    pub fn as_bytes(&self) -> Result<&[u8], Error> {
        let (data, bytes) = self.memory()?;
        Ok(unsafe { std::slice::from_raw_parts(data as *const u8, bytes) })
    }

    pub fn as_mut_bytes(&mut self) -> Result<&mut [u8], Error> {
        let (data, bytes) = self.memory()?;
        Ok(unsafe { std::slice::from_raw_parts_mut(data as *mut u8, bytes) })
    }
}
