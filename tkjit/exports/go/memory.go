package PACKAGE

// Who owns the memory of tensors, and how much of it there is.

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

// budget is what tensors may hold before the garbage collector, which sees 8 bytes of each, is called.
var budget = struct {
	sync.Mutex
	bytes, live, next int64
}{bytes: 1 << 30, next: 1 << 30}

// SetMemoryBudget says how many bytes the tensors of this package may hold before those that nobody uses any more are
// looked for; 1 GiB if it is not called. Where more are in use, they are looked for when it is twice as much.
func SetMemoryBudget(bytes int64) {
	budget.Lock()
	defer budget.Unlock()
	budget.bytes, budget.next = bytes, bytes
}

// MemoryInUse says how many bytes the tensors of this package hold.
func MemoryInUse() int64 {
	budget.Lock()
	defer budget.Unlock()
	return budget.live
}

// reserve counts memory, and collects what nobody uses if there is too much of it.
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

// collecting is held while a collection runs; collections is how many have begun.
var (
	collecting  sync.Mutex
	collections int64
)

// finalizersTake is how long a collection waits for finalizers, of which one may be the program's own and wait for memory.
const finalizersTake = time.Second

func collect() {
	asked := atomic.LoadInt64(&collections)
	collecting.Lock()
	defer collecting.Unlock()
	if atomic.LoadInt64(&collections) > asked {
		return // one that began after this one was asked for has ended
	}
	atomic.AddInt64(&collections, 1)
	// an object that is found in the same collection: its finalizer, which runs with the others, tells that they have run
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

// A handle owns a tensor of C's. It is given back when the handle is closed, and no call uses it any more.
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

// made is called when the tensor has its memory.
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
	errorOf(C.tkjit_tensor_free(h.c)) // whoever holds a copy of it in C has freed it
	C.free(unsafe.Pointer(h.c))
	h.c = nil
	budget.Lock()
	budget.live -= h.bytes
	budget.Unlock()
}
