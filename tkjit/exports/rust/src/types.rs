//! Element types, devices and seeds.

use std::fmt;

use crate::ffi;

/// The element types. A complex number is its real and imaginary part; `Float4E2M1FNx2` is two numbers in one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum DType {
    Bool,
    Uint8,
    Int8,
    Uint16,
    Int16,
    Uint32,
    Int32,
    Uint64,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Float8E4M3FN,
    Float8E5M2,
    Float8E8M0FNU,
    Float4E2M1FNx2,
    Complex64,
    Complex128,
}

pub(crate) const DTYPES: [DType; 19] = [
    DType::Bool,
    DType::Uint8,
    DType::Int8,
    DType::Uint16,
    DType::Int16,
    DType::Uint32,
    DType::Int32,
    DType::Uint64,
    DType::Int64,
    DType::Float16,
    DType::BFloat16,
    DType::Float32,
    DType::Float64,
    DType::Float8E4M3FN,
    DType::Float8E5M2,
    DType::Float8E8M0FNU,
    DType::Float4E2M1FNx2,
    DType::Complex64,
    DType::Complex128,
];

/// The device of a tensor's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Cpu,
    /// A GPU by its number.
    Cuda(i32),
}

impl Device {
    pub(crate) fn c(self) -> ffi::tkjit_device {
        match self {
            Device::Cpu => ffi::tkjit_device { kind: 0, index: 0 },
            Device::Cuda(index) => ffi::tkjit_device { kind: 1, index },
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// The number of GPUs.
pub fn device_count() -> i32 {
    unsafe { ffi::tkjit_device_count() }
}

/// A seed for random numbers, and the offset in its sequence at which a call begins, a multiple of 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    pub seed: u64,
    pub offset: u64,
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensors have as an element type.
pub trait Element: Copy + sealed::Sealed {
    const DTYPE: DType;
}

macro_rules! elements {
    ($($element:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
elements!(u8 => Uint8, i8 => Int8, u16 => Uint16, i16 => Int16, u32 => Uint32, i32 => Int32, u64 => Uint64,
          i64 => Int64, f32 => Float32, f64 => Float64);
