//! The kernels. Pass `None` as the stream for the device's default stream, the only one on the CPU.
#![allow(clippy::too_many_arguments, non_snake_case)]

use crate::error::{check, ready, Error};
use crate::ffi;
use crate::stream::{pointer_of, Stream};
use crate::tensor::Tensor;

/// Computes alpha * x + y in place.
///
/// ```text
/// Parameters
/// ----------
/// x : (N,) float32, bfloat16 or float16
/// y : (N,) of x's dtype; overwritten and returned
/// alpha : the factor of x
/// ```
pub fn axpy(
    x: &Tensor<'_>,
    y: &mut Tensor<'_>,
    alpha: f64,
    stream: Option<&Stream>,
) -> Result<(), Error> {
    ready()?;
    check(unsafe {
        ffi::layers_axpy(
            &x.c,
            &y.c,
            alpha,
            pointer_of(stream),
        )
    })
}

/// Computes exp(x - max(x)) / sum(exp(x - max(x))) along the last dimension.
///
/// ```text
/// Parameters
/// ----------
/// x : (..., N) float32, bfloat16 or float16; computed in float32
///
/// Returns
/// -------
/// y : (..., N) of x's dtype; each row sums to 1
///
/// Notes
/// -----
/// The maximum and the sum are found in one pass over the row. Source: Milakov and Gimelshein, "Online normalizer
/// calculation for softmax", 2018.
/// ```
pub fn softmax(
    x: &Tensor<'_>,
    stream: Option<&Stream>,
) -> Result<Tensor<'static>, Error> {
    let mut y = Tensor::none();
    softmax_into(x, &mut y, stream)?;
    Ok(y)
}

/// Like `softmax`, but writes to outputs that you pass.
pub fn softmax_into(
    x: &Tensor<'_>,
    y: &mut Tensor<'_>,
    stream: Option<&Stream>,
) -> Result<(), Error> {
    ready()?;
    check(unsafe {
        ffi::layers_softmax(
            &x.c,
            &mut y.c,
            pointer_of(stream),
        )
    })
}
