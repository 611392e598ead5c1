// The size and alignment of an element. Host code only has pointers to it.
#pragma once

struct alignas(2) __half {
    unsigned short bits;
};
