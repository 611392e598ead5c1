package PACKAGE

// Streams.

/*
#include <stdlib.h>
#include <LIBRARY.h>
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// A Stream orders the work on a GPU. A nil Stream is the default stream; it waits for the others, and they wait for it.
type Stream struct {
	device  Device
	mutex   sync.Mutex
	pointer unsafe.Pointer
	uses    int
	closed  bool
}

// NewStream creates a stream on a device.
func NewStream(device Device) (*Stream, error) {
	s := &Stream{device: device}
	if err := errorOf(C.tkjit_stream_new(device.c(), &s.pointer)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(s, func(s *Stream) { s.Close() })
	return s, nil
}

// acquire keeps the stream open until release is called.
func (s *Stream) acquire() (unsafe.Pointer, error) {
	if s == nil {
		return nil, nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, &Error{ArgumentError, "the stream was closed"}
	}
	s.uses++
	return s.pointer, nil
}

func (s *Stream) release() {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.uses--
	if s.closed && s.uses == 0 {
		s.free()
	}
}

func (s *Stream) free() error {
	err := errorOf(C.tkjit_stream_free(s.device.c(), s.pointer))
	s.pointer = nil
	return err
}

// Close frees the stream as soon as no call uses it. A second Close does nothing.
func (s *Stream) Close() error {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.uses == 0 {
		return s.free()
	}
	return nil
}

// Wait waits until everything that was launched in the stream is done.
func (s *Stream) Wait() error {
	if s == nil {
		return &Error{ArgumentError, "Wait: each device has its own default stream; create a stream with NewStream"}
	}
	return waitFor(s, s.device)
}

// waitFor waits for a stream of a device; nil is the default stream.
func waitFor(s *Stream, device Device) error {
	pointer, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release()
	return errorOf(C.tkjit_stream_wait(device.c(), pointer))
}

// deviceOf returns the device of the first tensor that is not missing.
func deviceOf(tensors []Tensor) Device {
	for _, t := range tensors {
		if t.h != nil {
			return t.Device()
		}
	}
	return CPU
}
