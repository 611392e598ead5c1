// The simulator's `<thrust/random.h>`: engines and distributions with the standard's names. The engines produce the
// same numbers as Thrust's; the distributions produce the standard library's results.
#pragma once

#include <random>

namespace thrust {
namespace random {

using std::minstd_rand;
using std::minstd_rand0;
using std::ranlux24;
using std::ranlux48;
using default_random_engine = minstd_rand;
using std::normal_distribution;

template <class T = int>
class uniform_int_distribution : public std::uniform_int_distribution<T> {
  public:
    using std::uniform_int_distribution<T>::uniform_int_distribution;
};
template <class T = double>
class uniform_real_distribution : public std::uniform_real_distribution<T> {
  public:
    using std::uniform_real_distribution<T>::uniform_real_distribution;
};

}  // namespace random

using namespace random;

}  // namespace thrust
