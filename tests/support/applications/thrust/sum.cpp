#include "../application.hpp"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>

int main(int, char** argv) {
    const std::size_t n = std::strtoul(argv[1], nullptr, 10);
    const std::vector<int> input = numbers(n, 10000);
    const thrust::host_vector<int> host(input.begin(), input.end());
    const thrust::device_vector<int> data(host);
    print("sum", thrust::reduce(data.begin(), data.end(), 0, thrust::plus<int>()));
    print("largest", thrust::reduce(data.begin(), data.end(), 0, thrust::maximum<int>()));
}
