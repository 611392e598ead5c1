package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func post(t *testing.T, body string) *httptest.ResponseRecorder {
	t.Helper()
	model, err := newModel()
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	classify(model)(answer, httptest.NewRequest("POST", "/classify", strings.NewReader(body)))
	return answer
}

func TestPointsAreClassified(t *testing.T) {
	answer := post(t, "[[1, 0], [0, 2], [3, 3]]")
	var rows [][]float32
	if err := json.Unmarshal(answer.Body.Bytes(), &rows); err != nil {
		t.Fatal(err, answer.Body.String())
	}
	if len(rows) != 3 || rows[0][0] < 0.9 || rows[1][1] < 0.9 || rows[2][0] != 0.5 {
		t.Fatalf("got %v", rows)
	}
}

func TestABadRequestIsRefused(t *testing.T) {
	if answer := post(t, "{}"); answer.Code != http.StatusBadRequest {
		t.Fatalf("got %d %s", answer.Code, answer.Body.String())
	}
}
