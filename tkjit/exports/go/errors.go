package PACKAGE

// Errors, element types and devices.

/*
#cgo CPPFLAGS: -I${SRCDIR}/include
#cgo LDFLAGS: -L${SRCDIR}/lib -lLIBRARY -Wl,-rpath,${SRCDIR}/lib
#include <stdlib.h>
#include <LIBRARY.h>
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// An Error describes why a call was rejected or failed.
type Error struct {
	Kind ErrorKind
	Text string
}

func (e *Error) Error() string { return e.Text }

// An ErrorKind classifies errors.
type ErrorKind int

// The kinds: an argument with the wrong type, dtype, device or layout; extents that contradict each other; a failed
// launch or kernel; not enough memory.
const (
	ArgumentError ErrorKind = 1
	ShapeError    ErrorKind = 2
	LaunchError   ErrorKind = 3
	MemoryError   ErrorKind = 4
)

// errorOf converts a C error, and frees it.
func errorOf(e C.tkjit_error) error {
	if e == nil {
		return nil
	}
	made := &Error{ErrorKind(C.tkjit_error_kind(e)), C.GoString(e)}
	C.tkjit_free_error(e)
	return made
}

// interfaceError is set if the library does not match this package.
var interfaceError = func() error {
	text := C.CString(C.MACRO_INTERFACE)
	defer C.free(unsafe.Pointer(text))
	return errorOf(C.LIBRARY_check_interface(text))
}()

// A DType is the type of a tensor's elements.
type DType int32

// The element types. A complex number is its real and imaginary part; Float4E2M1FNx2 is two numbers in one byte.
const (
	Bool DType = iota
	Uint8
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Uint64
	Int64
	Float16
	BFloat16
	Float32
	Float64
	Float8E4M3FN
	Float8E5M2
	Float8E8M0FNU
	Float4E2M1FNx2
	Complex64
	Complex128
)

// Size returns the number of bytes in an element.
func (t DType) Size() int { return int(C.tkjit_dtype_size(C.tkjit_dtype(t))) }

func (t DType) String() string { return C.GoString(C.tkjit_dtype_name(C.tkjit_dtype(t))) }

// A Device is the CPU, or a GPU by its number.
type Device struct {
	cuda  bool
	index int
}

// CPU is the device of the host.
var CPU = Device{}

// CUDA returns the GPU with that number.
func CUDA(index int) Device { return Device{true, index} }

// DeviceCount returns the number of GPUs.
func DeviceCount() int { return int(C.tkjit_device_count()) }

func (d Device) String() string {
	if d.cuda {
		return fmt.Sprintf("cuda:%d", d.index)
	}
	return "cpu"
}

func (d Device) c() C.tkjit_device {
	if d.cuda {
		return C.tkjit_cuda(C.int32_t(d.index))
	}
	return C.tkjit_cpu()
}

// A Seed is the seed for random numbers. Offset is the position in its sequence at which a call begins, a multiple of 4.
type Seed struct{ Seed, Offset uint64 }
