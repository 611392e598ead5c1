// Declares only the size and alignment of the elements, because host code has pointers to them but never reads them.
#pragma once

struct __nv_fp8_e4m3 {
    unsigned char bits;
};
struct __nv_fp8_e5m2 {
    unsigned char bits;
};
struct __nv_fp8_e8m0 {
    unsigned char bits;
};
