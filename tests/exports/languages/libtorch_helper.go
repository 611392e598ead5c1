//go:build libtorch

package zoo

// void* zoo_test_ones(int rows, int cols);
// double zoo_test_sum(void* tensor);
import "C"

import "unsafe"

func torchOnes(rows, cols int) unsafe.Pointer { return C.zoo_test_ones(C.int(rows), C.int(cols)) }

func torchSum(tensor unsafe.Pointer) float64 { return float64(C.zoo_test_sum(tensor)) }
