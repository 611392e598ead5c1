// The simulator's `cuda_pipeline.h`: the primitives; it has no classes of pipelines.
#pragma once

#include "cuda_pipeline_primitives.h"
