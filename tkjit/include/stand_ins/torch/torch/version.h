// The version of torch, from its header-only part.
#pragma once

#include <torch/headeronly/version.h>
