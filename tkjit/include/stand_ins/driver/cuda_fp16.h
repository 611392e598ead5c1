// Declares only the size and alignment of an element, because host code has pointers to elements but never reads them.
#pragma once

struct alignas(2) __half {
    unsigned short bits;
};
