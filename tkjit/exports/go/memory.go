package PACKAGE

// Owns the memory of tensors, and counts it.

/*
#include <stdlib.h>
#include <LIBRARY.h>
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// budget limits the bytes that tensors hold before the garbage collector is called, which sees only 8 bytes of each.
var budget = struct {
	sync.Mutex
	bytes, live, next int64
}{bytes: 1 << 30, next: 1 << 30}

// SetMemoryBudget sets how many bytes the tensors of this package may hold before the garbage collector looks for unused
// ones; the default is 1 GiB. If more than that is in use, it looks again when the memory has doubled.
func SetMemoryBudget(bytes int64) {
	budget.Lock()
	defer budget.Unlock()
	budget.bytes, budget.next = bytes, bytes
}

// MemoryInUse returns how many bytes the tensors of this package hold.
func MemoryInUse() int64 {
	budget.Lock()
	defer budget.Unlock()
	return budget.live
}

// reserve counts new memory, and collects unused tensors if there is too much.
func reserve(bytes int64) {
	budget.Lock()
	budget.live += bytes
	over := budget.live > budget.next
	budget.Unlock()
	if !over {
		return
	}
	collect()
	budget.Lock()
	defer budget.Unlock()
	budget.next = max64(budget.bytes, 2*budget.live)
}

func max64(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// collecting is held while a collection runs; collections counts those that have begun.
var (
	collecting  sync.Mutex
	collections int64
)

// finalizersTake limits how long a collection waits for finalizers: one of the program's own may itself wait for memory.
const finalizersTake = time.Second

func collect() {
	asked := atomic.LoadInt64(&collections)
	collecting.Lock()
	defer collecting.Unlock()
	if atomic.LoadInt64(&collections) > asked {
		return // another one has begun and ended since this one was requested
	}
	atomic.AddInt64(&collections, 1)
	// the sentinel is found in the same collection; its finalizer runs with the others, and signals that they have run
	for round := 0; round < 2; round++ {
		ran := make(chan struct{})
		func() {
			sentinel := new([16]byte)
			runtime.SetFinalizer(sentinel, func(*[16]byte) { close(ran) })
		}()
		runtime.GC()
		select {
		case <-ran:
		case <-time.After(finalizersTake):
		}
	}
}

// A handle owns a C tensor, which is freed as soon as the handle is closed and no call uses it.
type handle struct {
	mutex  sync.Mutex
	c      *C.tkjit_tensor
	uses   int
	closed bool
	bytes  int64
}

func newHandle() (*handle, error) {
	if interfaceError != nil {
		return nil, interfaceError
	}
	c := (*C.tkjit_tensor)(C.calloc(1, C.size_t(unsafe.Sizeof(C.tkjit_tensor{}))))
	if c == nil {
		return nil, &Error{MemoryError, "out of memory"}
	}
	h := &handle{c: c}
	runtime.SetFinalizer(h, (*handle).close)
	return h, nil
}

// made counts the tensor's memory; call it once the memory is allocated.
func (h *handle) made() Tensor {
	h.bytes = int64(C.tkjit_tensor_bytes(h.c))
	reserve(h.bytes)
	return Tensor{h}
}

func (h *handle) close() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	runtime.SetFinalizer(h, nil)
	if h.uses == 0 {
		h.free()
	}
}

func (h *handle) free() {
	errorOf(C.tkjit_tensor_free(h.c)) // fails only if C code with a copy of the tensor has freed it
	C.free(unsafe.Pointer(h.c))
	h.c = nil
	budget.Lock()
	budget.live -= h.bytes
	budget.Unlock()
}
