//go:build libtorch

package PACKAGE

// Tensors of libtorch as tensors of this package, and back, without a copy. Build with
//
//	CGO_CXXFLAGS="-std=c++20 -I$LIBTORCH/include -I$LIBTORCH/include/torch/csrc/api/include" \
//	CGO_LDFLAGS="-L$LIBTORCH/lib -ltorch -ltorch_cpu -lc10 -Wl,-rpath,$LIBTORCH/lib" go build -tags libtorch

// #include "libtorch.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// FromTorch is a tensor with the memory of an at::Tensor, by its address: what a type Tensor{T *unsafe.Pointer} has in *T.
// On a GPU, wait for the streams that use it before Close: torch gives the memory to other tensors of its own stream.
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

// ToTorch is a new at::Tensor with the memory of a tensor, which is closed by it; delete it in C++. No other call may use the
// tensor meanwhile.
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
