// Replaces torch's header for the registration of operators; see tkjit/torch/library.h.
#pragma once

#include <tkjit/torch/library.h>
