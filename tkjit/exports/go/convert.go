package PACKAGE

// Converts Go values to C.

/*
#include <stdlib.h>
#include <LIBRARY.h>
*/
import "C"

import (
	"strings"
	"unsafe"
)

func int64s(numbers []int) []C.int64_t {
	made := make([]C.int64_t, len(numbers))
	for i, number := range numbers {
		made[i] = C.int64_t(number)
	}
	return made
}

func first[T any](items []T) *T {
	if len(items) == 0 {
		return nil
	}
	return &items[0]
}

// firstOf returns nil only for a nil slice, which stands for the default, but not for an empty slice.
func firstOf[T any](items []T) *T {
	if items != nil && len(items) == 0 {
		return new(T)
	}
	return first(items)
}

func pointers(texts []string) []*string {
	made := make([]*string, len(texts))
	for i := range texts {
		made[i] = &texts[i]
	}
	return made
}

// texts are C strings; nil stands for a missing one.
type texts []*C.char

func cStrings(given ...*string) (texts, error) {
	made := make(texts, len(given))
	for i, text := range given {
		if text == nil {
			continue
		}
		if strings.IndexByte(*text, 0) >= 0 {
			made.free()
			return nil, &Error{ArgumentError, "a text contains a NUL character, which C cannot take"}
		}
		made[i] = C.CString(*text)
	}
	return made, nil
}

func (t texts) one() *C.char  { return t[0] }
func (t texts) all() **C.char { return firstOf(t) }

func (t texts) free() {
	for _, text := range t {
		C.free(unsafe.Pointer(text))
	}
}

// must panics if there is an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
