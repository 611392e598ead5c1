// An element's size and alignment: host code only points to it.
#pragma once

struct alignas(2) __nv_bfloat16 {
    unsigned short bits;
};
