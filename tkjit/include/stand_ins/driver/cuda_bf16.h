// The size and alignment of an element. Host code only has pointers to it.
#pragma once

struct alignas(2) __nv_bfloat16 {
    unsigned short bits;
};
