// An empty stub: clang's wrapper of the CUDA runtime includes this header, but some toolkits lack it.
#pragma once
