//go:build libtorch

package zoo

import "testing"

func TestTensorsOfTorch(t *testing.T) {
	x, err := FromTorch(torchOnes(3, 4))
	if err != nil {
		t.Fatal(err)
	}
	y, err := Softmax(x)
	if err != nil {
		t.Fatal(err)
	}
	back, err := y.ToTorch()
	if err != nil {
		t.Fatal(err)
	}
	if sum := torchSum(back); sum < 2.999 || sum > 3.001 {
		t.Fatal(sum)
	}
	if _, err := Softmax(y); err == nil {
		t.Fatal("a tensor whose memory was moved away was accepted")
	}
}
