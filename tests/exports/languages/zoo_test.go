package zoo

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func tensor(t *testing.T, elements []float32, sizes ...int) Tensor {
	t.Helper()
	made, err := FromSlice(elements, sizes...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func elements(t *testing.T, x Tensor) []float32 {
	t.Helper()
	shown, err := Slice[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	copied := append([]float32(nil), shown...)
	runtime.KeepAlive(x)
	return copied
}

func same(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func refused(t *testing.T, err error, kind ErrorKind, text string) {
	t.Helper()
	var found *Error
	if !errors.As(err, &found) || found.Kind != kind || found.Text != text {
		t.Fatalf("got %v, want %q", err, text)
	}
}

func TestAFunctionAMethodAndGivenMemory(t *testing.T) {
	a, b := tensor(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3), tensor(t, []float32{1, 0, 0, 1, 1, 1}, 3, 2)
	want := []float32{4, 5, 10, 11}
	c, err := Gemm(a, b)
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, c), want)
	if sizes := c.Sizes(); sizes[0] != 2 || sizes[1] != 2 || c.DType() != Float32 || c.Device() != CPU {
		t.Fatalf("%v %v %v", sizes, c.DType(), c.Device())
	}
	c, err = a.Gemm(b)
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, c), want)
	into := tensor(t, make([]float32, 4), 2, 2)
	if err := GemmInto(nil, a, b, into); err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, into), want)
	same(t, elements(t, MustGemm(a, b)), want)
}

func TestRefusals(t *testing.T) {
	a, b := tensor(t, make([]float32, 6), 2, 3), tensor(t, make([]float32, 6), 3, 2)
	_, err := Gemm(a, a)
	refused(t, err, ShapeError, "gemm: b is (2, 3) float32 on cpu; expected (K=3, N) of a's type float32; dim 0 is 2, but K=3 from a")
	_, err = Gemm(a, Tensor{})
	refused(t, err, ArgumentError, "gemm: b is not a tensor: it was never made")
	b.Close()
	b.Close()
	_, err = Gemm(a, b)
	refused(t, err, ArgumentError, "gemm: b is a tensor that was closed")
	_, err = FromSlice([]float32{1, 2, 3}, 2, 2)
	refused(t, err, ShapeError, "FromSlice: got 3 elements; expected 4 for the sizes [2 2]")
	_, err = Empty(Float32, CPU, -1)
	refused(t, err, ArgumentError, "tkjit_tensor_new: the tensor is (-1,); expected extents that are not negative")
	_, err = Slice[float64](a)
	refused(t, err, ArgumentError, "Slice: t is float32; expected float64")
	if _, err = Empty(Float32, CUDA(0), 1); err == nil || !strings.Contains(err.Error(), "for the CPU only") {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if found, ok := recover().(*Error); !ok || found.Kind != ShapeError {
				t.Fatalf("panicked with %v", found)
			}
		}()
		MustGemm(a, a)
	}()
}

func TestValuesOfEveryKind(t *testing.T) {
	x, acc := tensor(t, []float32{1, 1, 1, 1, 1, 1}, 2, 3), tensor(t, make([]float32, 2), 2)
	bias := tensor(t, []float32{0, 1, 2}, 3)
	shift := int64(10)
	y, err := Mix(x, acc, &bias, 2, 1, &shift, true, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, y), []float32{13, 14, 15})
	same(t, elements(t, acc), []float32{1, 1})
	y, err = Mix(x, acc, nil, 2, 1, nil, false, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, y), []float32{2, 2, 2})
	picked, err := Pick(bias, []int64{2, 1}, []float64{0.5})
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, picked)[:2], []float32{2.5, 1})
	if picked, err = Pick(bias, []int64{2, 1}, []float64{}); err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, picked)[:2], []float32{2, 1})
	if picked, err = Pick(bias, []int64{2, 1}, nil); err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, picked)[:2], []float32{2.75, 1})
	if _, err = Describe(bias, "ab\x00cd", Float32, CPU); err == nil {
		t.Fatal("a text with a NUL character was accepted")
	}
	sum, err := Add([]Tensor{bias, {}, bias})
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, sum), []float32{0, 2, 4})
	number, err := Describe(bias, "four", Float32, CUDA(3))
	if err != nil || number != 4000+10*int64(Float32)+1 {
		t.Fatal(number, err)
	}
	if _, err = Noise(bias, Seed{Seed: 7, Offset: 3}); err == nil {
		t.Fatal("an offset of 3 was accepted")
	}
	one, err := Ones(3, Float32, CPU)
	if err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, one), []float32{1, 1, 1})
}

func TestElementsOfAnyType(t *testing.T) {
	ones := []byte{0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f}
	x, err := FromBytes(BFloat16, ones, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	y, err := Gemm(x, x)
	if err != nil {
		t.Fatal(err)
	}
	got, err := y.Bytes()
	if err != nil || len(got) != 8 || got[0] != 0 || got[1] != 0x40 {
		t.Fatal(got, err)
	}
	runtime.KeepAlive(y)
	_, err = FromBytes(BFloat16, ones, 2, 3)
	refused(t, err, ShapeError, "FromBytes: got 8 bytes; expected 12 for the sizes [2 3] of bfloat16")
}

func TestStreams(t *testing.T) {
	s, err := NewStream(CPU)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor(t, []float32{1, 2}, 2)
	if _, err := SoftmaxOn(s, x); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 2; i++ {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = SoftmaxOn(s, x)
	refused(t, err, ArgumentError, "the stream was closed")
	var none *Stream
	if none.Wait() == nil || none.Close() != nil {
		t.Fatal("the default stream")
	}
}

// If a finalizer of the program allocates a tensor, the allocation must not wait for that finalizer.
func TestAFinalizerMayAllocate(t *testing.T) {
	SetMemoryBudget(1)
	defer SetMemoryBudget(1 << 30)
	done := make(chan error)
	func() {
		object := new([64]byte)
		runtime.SetFinalizer(object, func(*[64]byte) {
			_, err := Empty(Uint8, CPU, 1<<20)
			done <- err
		})
	}()
	runtime.GC()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a finalizer waits for itself")
	}
}

// The garbage collector frees tensors that no call uses any more, and no others.
func TestManyGoroutines(t *testing.T) {
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for round := 0; round < 100; round++ {
				n := worker + 2
				ones := make([]float32, n*n)
				for i := range ones {
					ones[i] = 1
				}
				a, err := FromSlice(ones, n, n)
				if err != nil {
					t.Error(err)
					return
				}
				c := MustGemm(MustGemm(a, a), MustGemm(a, a))
				shown, err := Slice[float32](c)
				if err != nil || shown[0] != float32(n*n*n) {
					t.Errorf("%v %v, want %v", shown[0], err, n*n*n)
				}
				runtime.KeepAlive(c)
				if _, err := Gemm(a, Tensor{}); err == nil {
					t.Error("the zero Tensor was accepted")
				}
			}
		}(worker)
	}
	group.Wait()
}

func TestTheBudgetHolds(t *testing.T) {
	const size, count, limit = 1 << 20, 10_000, 64 << 20
	SetMemoryBudget(limit)
	defer SetMemoryBudget(1 << 30)
	runtime.GC()
	most := int64(0)
	for i := 0; i < count; i++ {
		x, err := Empty(Uint8, CPU, size)
		if err != nil {
			t.Fatal(err)
		}
		if used := MemoryInUse(); used > most {
			most = used
		}
		runtime.KeepAlive(x)
	}
	if most > 2*limit {
		t.Fatalf("%d bytes at once; the budget is %d", most, limit)
	}
}

func TestACloseWhileACallRuns(t *testing.T) {
	for round := 0; round < 50; round++ {
		a := tensor(t, make([]float32, 64*64), 64, 64)
		done := make(chan struct{})
		go func() {
			a.Close()
			close(done)
		}()
		_, err := Gemm(a, a)
		var found *Error
		if err != nil && !errors.As(err, &found) {
			t.Fatal(err)
		}
		<-done
	}
}

func TestAContext(t *testing.T) {
	a := tensor(t, make([]float32, 600*600), 600, 600)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := GemmContext(ctx, nil, a, a)
	if err != nil || c.Sizes()[0] != 600 {
		t.Fatal(err)
	}
	cancel()
	if _, err = GemmContext(ctx, nil, a, a); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	before := time.Now()
	if _, err = GemmContext(ctx, nil, a, a); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v after %v", err, time.Since(before))
	}
	a.Close() // while the abandoned kernel still reads it
	runtime.GC()
}

func BenchmarkSoftmax(b *testing.B) {
	x, err := FromSlice([]float32{1, 2, 3, 4}, 1, 4)
	if err != nil {
		b.Fatal(err)
	}
	y, err := Softmax(x)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < b.N; i++ {
		if err := SoftmaxInto(nil, x, y); err != nil {
			b.Fatal(err)
		}
	}
}
