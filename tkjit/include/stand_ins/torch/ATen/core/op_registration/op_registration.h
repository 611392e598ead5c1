// Registration of operators: see tkjit/torch/library.h.
#pragma once

#include <tkjit/torch/library.h>
