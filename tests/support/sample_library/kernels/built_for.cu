// Returns the values of the library's macros and flags.
#include <mittens.h>

#if defined(MITTENS_BLACKWELL)
static constexpr int generation = 100;
#elif defined(MITTENS_HOPPER)
static constexpr int generation = 90;
#elif defined(MITTENS_AMPERE)
static constexpr int generation = 80;
#else
static constexpr int generation = 0;
#endif

struct built_globals {
    mittens::gl<int, 1, 1, 1, 2> out;
};

__global__ void built_for(const __grid_constant__ built_globals g) {
    g.out(0, 0) = generation;
    g.out(0, 1) = MITTENS_FLAVOUR;
}
