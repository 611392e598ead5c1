package layers

import "testing"

func BenchmarkCall(b *testing.B) {
	x, _ := FromSlice(make([]float32, 256), 256)
	y, err := FromSlice(make([]float32, 256), 256)
	for i := 0; i < b.N && err == nil; i++ {
		err = Axpy(x, y, 0.5)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCgo measures a call of a C function that does nothing.
func BenchmarkCgo(b *testing.B) {
	for i := 0; i < b.N; i++ {
		if Float32.Size() != 4 {
			b.Fatal()
		}
	}
}
