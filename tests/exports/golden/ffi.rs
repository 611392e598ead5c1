//! The C interface: `include/layers.h`.
#![allow(non_camel_case_types, non_snake_case)]

use std::ffi::{c_char, c_int, c_void};

pub const TKJIT_MAX_NDIM: usize = 8;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct tkjit_device {
    pub kind: i32,
    pub index: i32,
}

#[repr(C)]
pub struct tkjit_tensor {
    pub abi: u32,
    pub read_only: bool,
    pub dtype: i32,
    pub ndim: i32,
    pub device: tkjit_device,
    pub data: *mut c_void,
    pub sizes: [i64; TKJIT_MAX_NDIM],
    pub strides: [i64; TKJIT_MAX_NDIM],
    pub memory: *mut c_void,
    pub generation: u64,
}

impl Default for tkjit_tensor {
    fn default() -> Self {
        unsafe { std::mem::zeroed() }
    }
}

extern "C" {
    pub fn tkjit_error_kind(error: *mut c_char) -> c_int;
    pub fn tkjit_free_error(error: *mut c_char);
    pub fn tkjit_tensor_new(
        tensor: *mut tkjit_tensor,
        dtype: i32,
        device: tkjit_device,
        ndim: i32,
        sizes: *const i64,
    ) -> *mut c_char;
    pub fn tkjit_tensor_view(
        tensor: *mut tkjit_tensor,
        data: *mut c_void,
        dtype: i32,
        device: tkjit_device,
        ndim: i32,
        sizes: *const i64,
        strides: *const i64,
    ) -> *mut c_char;
    pub fn tkjit_tensor_free(tensor: *mut tkjit_tensor) -> *mut c_char;
    pub fn tkjit_tensor_copy(to: *const tkjit_tensor, from: *const tkjit_tensor, stream: *mut c_void) -> *mut c_char;
    pub fn tkjit_tensor_is_contiguous(tensor: *const tkjit_tensor) -> bool;
    pub fn tkjit_tensor_bytes(tensor: *const tkjit_tensor) -> i64;
    pub fn tkjit_device_count() -> i32;
    pub fn tkjit_stream_new(device: tkjit_device, stream: *mut *mut c_void) -> *mut c_char;
    pub fn tkjit_stream_free(device: tkjit_device, stream: *mut c_void) -> *mut c_char;
    pub fn tkjit_stream_wait(device: tkjit_device, stream: *mut c_void) -> *mut c_char;
    pub fn layers_check_interface(interface: *const c_char) -> *mut c_char;
    pub fn layers_axpy(
        x: *const tkjit_tensor,
        y: *const tkjit_tensor,
        alpha: f64,
        stream: *mut c_void,
    ) -> *mut c_char;
    pub fn layers_softmax(
        x: *const tkjit_tensor,
        y: *mut tkjit_tensor,
        stream: *mut c_void,
    ) -> *mut c_char;
}
