package perceptron

import (
	"math"
	"runtime"
	"testing"

	"layers"
)

func tensor(t *testing.T, elements []float32, sizes ...int) layers.Tensor {
	t.Helper()
	made, err := layers.FromSlice(elements, sizes...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestForward(t *testing.T) {
	p := Perceptron{
		Hidden: tensor(t, []float32{1, -1, 0, 2}, 2, 2),
		Output: tensor(t, []float32{1, 0, 0, 1}, 2, 2),
	}
	// (1, 1) becomes (1, 1); (-1, 1) becomes (-1, 3), and (0, 3) after the ReLU
	probabilities, err := p.Forward(tensor(t, []float32{1, 1, -1, 1}, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	got, err := layers.Slice[float32](probabilities)
	if err != nil {
		t.Fatal(err)
	}
	one := 1 / (1 + math.Exp(3))
	for i, want := range []float64{0.5, 0.5, one, 1 - one} {
		if math.Abs(float64(got[i])-want) > 1e-6 {
			t.Fatalf("got %v, want %v at %d", got, want, i)
		}
	}
	runtime.KeepAlive(probabilities)
}

func TestAWrongShape(t *testing.T) {
	p := Perceptron{Hidden: tensor(t, make([]float32, 6), 3, 2), Output: tensor(t, make([]float32, 4), 2, 2)}
	_, err := p.Forward(tensor(t, make([]float32, 4), 2, 2))
	want := "gemm: b is (3, 2) float32 on cpu; expected (K=2, N) of a's type float32; dim 0 is 3, but K=2 from a"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}
