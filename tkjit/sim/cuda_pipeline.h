// The simulator's `cuda_pipeline.h`: only the primitives, without the pipeline classes.
#pragma once

#include "cuda_pipeline_primitives.h"
