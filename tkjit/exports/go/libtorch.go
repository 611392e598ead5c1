//go:build libtorch

package PACKAGE

// Converts tensors of libtorch to tensors of this package and back, without a copy. Build with
//
//	CGO_CXXFLAGS="-std=c++20 -I$LIBTORCH/include -I$LIBTORCH/include/torch/csrc/api/include" \
//	CGO_LDFLAGS="-L$LIBTORCH/lib -ltorch -ltorch_cpu -lc10 -Wl,-rpath,$LIBTORCH/lib" go build -tags libtorch

// #include "libtorch.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// FromTorch returns a tensor that shares the memory of an at::Tensor. Pass the address of the at::Tensor, which a Go type
// Tensor{T *unsafe.Pointer} holds in *T. On a GPU, wait for the streams that use the tensor before you close it, because
// torch then reuses the memory in its own stream.
func FromTorch(tensor unsafe.Pointer) (Tensor, error) {
	h, err := newHandle()
	if err != nil {
		return Tensor{}, err
	}
	if err := errorOf(C.LIBRARY_from_torch(tensor, h.c)); err != nil {
		h.close()
		return Tensor{}, err
	}
	return h.made(), nil
}

// ToTorch returns a new at::Tensor with the memory of a tensor, and closes the tensor. Delete the at::Tensor in C++. No
// other call may use the tensor at the same time.
func (t Tensor) ToTorch() (unsafe.Pointer, error) {
	c, err := t.acquire("ToTorch", "t")
	if err != nil {
		return nil, err
	}
	defer t.release()
	t.h.mutex.Lock()
	defer t.h.mutex.Unlock()
	if t.h.uses > 1 {
		return nil, &Error{ArgumentError, "ToTorch: another call uses t"}
	}
	var tensor unsafe.Pointer
	if err := errorOf(C.LIBRARY_to_torch(c, &tensor)); err != nil {
		return nil, err
	}
	t.h.closed = true
	runtime.SetFinalizer(t.h, nil)
	return tensor, nil
}
