// Clang's wrapper of the CUDA runtime includes this header, which not every toolkit has. Nothing in it is needed here.
#pragma once
