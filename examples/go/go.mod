module perceptron

go 1.19

require layers v0.0.0

replace layers => ./layers
