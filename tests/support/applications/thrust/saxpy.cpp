#include "program.hpp"

#include <thrust/device_vector.h>
#include <thrust/fill.h>
#include <thrust/functional.h>
#include <thrust/transform.h>

struct saxpy_functor {
    const float a;
    explicit saxpy_functor(float a) : a(a) {}
    float operator()(const float& x, const float& y) const { return a * x + y; }
};

void run(std::size_t n) {
    const std::vector<int> xs = numbers(n, 1000), ys = numbers(n, 1000, 5);
    thrust::device_vector<float> x(xs.begin(), xs.end()), y(ys.begin(), ys.end());
    thrust::device_vector<float> slow(y), fast(y);
    const Clock clock;
    thrust::device_vector<float> temporary(x.size());
    thrust::fill(temporary.begin(), temporary.end(), 2.0f);
    thrust::transform(x.begin(), x.end(), temporary.begin(), temporary.begin(), thrust::multiplies<float>());
    thrust::transform(temporary.begin(), temporary.end(), slow.begin(), slow.begin(), thrust::plus<float>());
    thrust::transform(x.begin(), x.end(), fast.begin(), fast.begin(), saxpy_functor(2.0f));
    clock.stop();
    print("slow", slow.begin(), slow.end());
    print("fast", fast.begin(), fast.end());
}
