// Package perceptron computes the forward pass of a perceptron with one hidden layer.
package perceptron

import "layers"

// A Perceptron has two matrices of weights: inputs by hidden units, and hidden units by classes.
type Perceptron struct {
	Hidden, Output layers.Tensor
}

// Forward is softmax(relu(x Hidden) Output): a row of probabilities for each row of x.
func (p Perceptron) Forward(x layers.Tensor) (layers.Tensor, error) {
	sums, err := x.Gemm(p.Hidden)
	if err != nil {
		return layers.Tensor{}, err
	}
	defer sums.Close()
	hidden, err := sums.Relu()
	if err != nil {
		return layers.Tensor{}, err
	}
	defer hidden.Close()
	scores, err := hidden.Gemm(p.Output)
	if err != nil {
		return layers.Tensor{}, err
	}
	defer scores.Close()
	return scores.Softmax()
}
