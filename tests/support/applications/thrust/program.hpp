// The common parts of the C++ programs for Thrust.
#pragma once

#include "../application.hpp"

int main(int, char** argv) { run_each(argv + 1); }
