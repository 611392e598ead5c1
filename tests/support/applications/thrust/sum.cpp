#include "program.hpp"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>

void run(std::size_t n) {
    const std::vector<int> input = numbers(n, 10000);
    const thrust::host_vector<int> host(input.begin(), input.end());
    const thrust::device_vector<int> data(host);
    const Clock clock;
    const int sum = thrust::reduce(data.begin(), data.end(), 0, thrust::plus<int>());
    const int largest = thrust::reduce(data.begin(), data.end(), 0, thrust::maximum<int>());
    clock.stop();
    print("sum", sum);
    print("largest", largest);
}
