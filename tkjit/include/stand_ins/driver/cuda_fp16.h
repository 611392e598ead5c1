// An element's size and alignment: host code only points to it.
#pragma once

struct alignas(2) __half {
    unsigned short bits;
};
