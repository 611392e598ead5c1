// What the C++ programs share.
#pragma once

#include "../application.hpp"

int main(int, char** argv) { run_each(argv + 1); }
