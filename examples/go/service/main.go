// Command service classifies points over HTTP. A request to /classify with [[x, y], ...] gets a row of probabilities for each.
package main

import (
	"encoding/json"
	"log"
	"net/http"

	"layers"
	"perceptron/perceptron"
)

// classify answers requests with the model's probabilities.
func classify(model perceptron.Perceptron) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		var points [][2]float32
		if err := json.NewDecoder(request.Body).Decode(&points); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		rows, err := probabilities(model, points)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		json.NewEncoder(writer).Encode(rows)
	}
}

func probabilities(model perceptron.Perceptron, points [][2]float32) ([][]float32, error) {
	elements := make([]float32, 0, 2*len(points))
	for _, point := range points {
		elements = append(elements, point[0], point[1])
	}
	x, err := layers.FromSlice(elements, len(points), 2)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	result, err := model.Forward(x)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	flat, err := layers.Slice[float32](result)
	if err != nil {
		return nil, err
	}
	rows := make([][]float32, len(points))
	for i := range rows {
		rows[i] = append([]float32(nil), flat[2*i:2*i+2]...) // a copy, because the result is freed
	}
	return rows, nil
}

// newModel returns a model that tells whether x exceeds y.
func newModel() (perceptron.Perceptron, error) {
	hidden, err := layers.FromSlice([]float32{1, -1, -1, 1}, 2, 2)
	if err != nil {
		return perceptron.Perceptron{}, err
	}
	output, err := layers.FromSlice([]float32{4, 0, 0, 4}, 2, 2)
	return perceptron.Perceptron{Hidden: hidden, Output: output}, err
}

func main() {
	model, err := newModel()
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/classify", classify(model))
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}
