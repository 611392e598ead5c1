package PACKAGE

// Tensors.

/*
#include <stdlib.h>
#include <LIBRARY.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// A Tensor owns memory outside of Go. Copies of it are the same tensor. The zero Tensor stands for a missing one.
type Tensor struct{ h *handle }

// acquire keeps the memory alive until release is called.
func (t Tensor) acquire(function, name string) (*C.tkjit_tensor, error) {
	if t.h == nil {
		return nil, &Error{ArgumentError, fmt.Sprintf("%s: %s is not a tensor: it was never made", function, name)}
	}
	t.h.mutex.Lock()
	defer t.h.mutex.Unlock()
	if t.h.closed {
		return nil, &Error{ArgumentError, fmt.Sprintf("%s: %s is a tensor that was closed", function, name)}
	}
	t.h.uses++
	return t.h.c, nil
}

func (t Tensor) release() {
	t.h.mutex.Lock()
	defer t.h.mutex.Unlock()
	t.h.uses--
	if t.h.closed && t.h.uses == 0 {
		t.h.free()
	}
}

// Close frees the memory as soon as no call uses it; otherwise the garbage collector does. A second Close does nothing.
func (t Tensor) Close() {
	if t.h != nil {
		t.h.close()
	}
}

// Empty creates a tensor with uninitialised elements.
func Empty(dtype DType, device Device, sizes ...int) (Tensor, error) {
	h, err := newHandle()
	if err != nil {
		return Tensor{}, err
	}
	extents := int64s(sizes)
	err = errorOf(C.tkjit_tensor_new(h.c, C.tkjit_dtype(dtype), device.c(), C.int32_t(len(sizes)), first(extents)))
	runtime.KeepAlive(extents)
	if err != nil {
		h.close()
		return Tensor{}, err
	}
	return h.made(), nil
}

// An Element is a Go type that tensors have as an element type.
type Element interface {
	bool | uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | complex64 | complex128
}

func dtypeOf[T Element]() DType {
	var element T
	switch any(element).(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case int8:
		return Int8
	case uint16:
		return Uint16
	case int16:
		return Int16
	case uint32:
		return Uint32
	case int32:
		return Int32
	case uint64:
		return Uint64
	case int64:
		return Int64
	case float32:
		return Float32
	case float64:
		return Float64
	case complex64:
		return Complex64
	}
	return Complex128
}

// FromSlice copies elements into a new tensor on the CPU.
func FromSlice[T Element](elements []T, sizes ...int) (Tensor, error) {
	t, err := Empty(dtypeOf[T](), CPU, sizes...)
	if err != nil {
		return t, err
	}
	into, err := Slice[T](t)
	if err != nil || len(into) != len(elements) {
		t.Close()
		if err == nil {
			err = &Error{ShapeError, fmt.Sprintf("FromSlice: got %d elements; expected %d for the sizes %v",
				len(elements), len(into), sizes)}
		}
		return Tensor{}, err
	}
	copy(into, elements)
	runtime.KeepAlive(t)
	return t, nil
}

// FromBytes copies elements of any type into a new tensor on the CPU: two bytes for each Float16 or BFloat16.
func FromBytes(dtype DType, elements []byte, sizes ...int) (Tensor, error) {
	t, err := Empty(dtype, CPU, sizes...)
	if err != nil {
		return t, err
	}
	into, err := t.Bytes()
	if err == nil && len(into) != len(elements) {
		err = &Error{ShapeError, fmt.Sprintf("FromBytes: got %d bytes; expected %d for the sizes %v of %v",
			len(elements), len(into), sizes, dtype)}
	}
	if err != nil {
		t.Close()
		return Tensor{}, err
	}
	copy(into, elements)
	runtime.KeepAlive(t)
	return t, nil
}

// View returns a tensor with memory that Go has not allocated, from C or on a GPU. The memory must outlive the tensor.
func View(data unsafe.Pointer, dtype DType, device Device, sizes ...int) (Tensor, error) {
	h, err := newHandle()
	if err != nil {
		return Tensor{}, err
	}
	extents := int64s(sizes)
	err = errorOf(C.tkjit_tensor_view(h.c, data, C.tkjit_dtype(dtype), device.c(), C.int32_t(len(sizes)), first(extents), nil))
	runtime.KeepAlive(extents)
	if err != nil {
		h.close()
		return Tensor{}, err
	}
	return Tensor{h}, nil
}

// memory returns the address of the elements of a row-major tensor on the CPU, and their size in bytes.
func (t Tensor) memory(function string) (unsafe.Pointer, int, error) {
	c, err := t.acquire(function, "t")
	if err != nil {
		return nil, 0, err
	}
	defer t.release()
	if c.device._type != C.TKJIT_CPU {
		return nil, 0, &Error{ArgumentError, fmt.Sprintf("%s: t is on %v; expected it on cpu", function, t.Device())}
	}
	if !C.tkjit_tensor_is_contiguous(c) {
		return nil, 0, &Error{ArgumentError, function + ": t is not contiguous"}
	}
	return c.data, int(C.tkjit_tensor_bytes(c)), nil
}

// Bytes returns the memory of a row-major tensor on the CPU, not a copy. It is valid while the tensor is in use: call
// runtime.KeepAlive(t) after the last use of the bytes.
func (t Tensor) Bytes() ([]byte, error) {
	data, bytes, err := t.memory("Bytes")
	if err != nil || bytes == 0 {
		return nil, err
	}
	return unsafe.Slice((*byte)(data), bytes), nil
}

// Slice returns the memory of a row-major tensor on the CPU as elements of a Go type. Like Bytes, it is not a copy, and is
// valid while the tensor is in use.
func Slice[T Element](t Tensor) ([]T, error) {
	data, bytes, err := t.memory("Slice")
	if err != nil {
		return nil, err
	}
	if want := dtypeOf[T](); t.DType() != want {
		return nil, &Error{ArgumentError, fmt.Sprintf("Slice: t is %v; expected %v", t.DType(), want)}
	}
	if bytes == 0 {
		return nil, nil
	}
	var element T
	return unsafe.Slice((*T)(data), bytes/int(unsafe.Sizeof(element))), nil
}

// To returns a copy on a device, which is complete when To returns.
func (t Tensor) To(device Device) (Tensor, error) {
	from, err := t.acquire("To", "t")
	if err != nil {
		return Tensor{}, err
	}
	defer t.release()
	copied, err := Empty(t.DType(), device, t.Sizes()...)
	if err != nil {
		return copied, err
	}
	if err = errorOf(C.tkjit_tensor_copy(copied.h.c, from, nil)); err != nil {
		copied.Close()
		return Tensor{}, err
	}
	runtime.KeepAlive(t)
	return copied, nil
}

// DType returns the type of the elements; -1 for a tensor that was closed.
func (t Tensor) DType() DType {
	c, err := t.acquire("DType", "t")
	if err != nil {
		return -1
	}
	defer t.release()
	return DType(c.dtype)
}

// Device returns the device of the memory; CPU for a tensor that was closed.
func (t Tensor) Device() Device {
	c, err := t.acquire("Device", "t")
	if err != nil {
		return CPU
	}
	defer t.release()
	return Device{c.device._type == C.TKJIT_CUDA, int(c.device.index)}
}

// Sizes returns the extents; nil for a tensor that was closed.
func (t Tensor) Sizes() []int {
	c, err := t.acquire("Sizes", "t")
	if err != nil {
		return nil
	}
	defer t.release()
	sizes := make([]int, c.ndim)
	for i := range sizes {
		sizes[i] = int(c.sizes[i])
	}
	return sizes
}
