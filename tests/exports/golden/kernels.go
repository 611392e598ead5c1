// Package layers provides axpy and softmax, exported by tkjit.
//
// Each function checks its arguments and may return an error; its Must form panics instead. On a GPU it does
// not wait for its kernel; its On form takes the stream to run in. Its Context form waits until the kernel
// or the context is done. Its Into form writes to outputs that you pass.
package layers

// #include <layers.h>
import "C"

import (
	"context"
	"runtime"
)

// Axpy: Computes alpha * x + y in place.
//
//	Parameters
//	----------
//	x : (N,) float32, bfloat16 or float16
//	y : (N,) of x's dtype; overwritten and returned
//	alpha : the factor of x
func Axpy(x Tensor, y Tensor, alpha float64) error {
	return AxpyOn(nil, x, y, alpha)
}

// MustAxpy is like Axpy, but panics if there is an error.
func MustAxpy(x Tensor, y Tensor, alpha float64) {
	must(Axpy(x, y, alpha))
}

// Axpy calls the function Axpy with this tensor as its first argument.
func (x Tensor) Axpy(y Tensor, alpha float64) error {
	return Axpy(x, y, alpha)
}

// AxpyOn is like Axpy, but runs in a stream; nil is the default stream.
func AxpyOn(stream *Stream, x Tensor, y Tensor, alpha float64) (err error) {
	cStream, err := stream.acquire()
	if err != nil {
		return
	}
	defer stream.release()
	cX, err := x.acquire("axpy", "x")
	if err != nil {
		return
	}
	defer x.release()
	cY, err := y.acquire("axpy", "y")
	if err != nil {
		return
	}
	defer y.release()
	err = errorOf(C.layers_axpy(cX, cY, C.double(alpha), cStream))
	runtime.KeepAlive(x)
	runtime.KeepAlive(y)
	return
}

// AxpyContext is like AxpyOn, but waits for the kernel. If ctx is done first, it returns
// the error of ctx, and the tensors stay alive until the kernel no longer needs them.
func AxpyContext(ctx context.Context, stream *Stream, x Tensor, y Tensor, alpha float64) (err error) {
	if err = ctx.Err(); err != nil {
		return
	}
	type outcome struct {
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var ended outcome
		ended.err = AxpyOn(stream, x, y, alpha)
		if ended.err == nil {
			ended.err = waitFor(stream, x.Device())
		}
		runtime.KeepAlive(x)
		runtime.KeepAlive(y)
		done <- ended
	}()
	select {
	case ended := <-done:
		return ended.err
	case <-ctx.Done():
		err = ctx.Err()
		return
	}
}

// Softmax: Computes exp(x - max(x)) / sum(exp(x - max(x))) along the last dimension.
//
//	Parameters
//	----------
//	x : (..., N) float32, bfloat16 or float16; computed in float32
//
//	Returns
//	-------
//	y : (..., N) of x's dtype; each row sums to 1
//
//	Notes
//	-----
//	The maximum and the sum are found in one pass over the row. Source: Milakov and Gimelshein, "Online normalizer
//	calculation for softmax", 2018.
func Softmax(x Tensor) (Tensor, error) {
	return SoftmaxOn(nil, x)
}

// MustSoftmax is like Softmax, but panics if there is an error.
func MustSoftmax(x Tensor) Tensor {
	y, err := Softmax(x)
	must(err)
	return y
}

// Softmax calls the function Softmax with this tensor as its first argument.
func (x Tensor) Softmax() (Tensor, error) {
	return Softmax(x)
}

// SoftmaxOn is like Softmax, but runs in a stream; nil is the default stream.
func SoftmaxOn(stream *Stream, x Tensor) (y Tensor, err error) {
	yHandle, err := newHandle()
	if err != nil {
		return
	}
	cStream, err := stream.acquire()
	if err != nil {
		return
	}
	defer stream.release()
	cX, err := x.acquire("softmax", "x")
	if err != nil {
		return
	}
	defer x.release()
	err = errorOf(C.layers_softmax(cX, yHandle.c, cStream))
	runtime.KeepAlive(x)
	if err != nil {
		yHandle.close()
		return
	}
	return yHandle.made(), nil
}

// SoftmaxInto is like SoftmaxOn, but writes to outputs that you pass.
func SoftmaxInto(stream *Stream, x Tensor, y Tensor) (err error) {
	cStream, err := stream.acquire()
	if err != nil {
		return
	}
	defer stream.release()
	cX, err := x.acquire("softmax", "x")
	if err != nil {
		return
	}
	defer x.release()
	cY, err := y.acquire("softmax", "y")
	if err != nil {
		return
	}
	defer y.release()
	err = errorOf(C.layers_softmax(cX, cY, cStream))
	runtime.KeepAlive(x)
	runtime.KeepAlive(y)
	return
}

// SoftmaxContext is like SoftmaxOn, but waits for the kernel. If ctx is done first, it returns
// the error of ctx, and the tensors stay alive until the kernel no longer needs them.
func SoftmaxContext(ctx context.Context, stream *Stream, x Tensor) (y Tensor, err error) {
	if err = ctx.Err(); err != nil {
		return
	}
	type outcome struct {
		y   Tensor
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var ended outcome
		ended.y, ended.err = SoftmaxOn(stream, x)
		if ended.err == nil {
			ended.err = waitFor(stream, x.Device())
		}
		runtime.KeepAlive(x)
		done <- ended
	}()
	select {
	case ended := <-done:
		return ended.y, ended.err
	case <-ctx.Done():
		err = ctx.Err()
		return
	}
}
