// The size and alignment of the elements. Host code only has pointers to them.
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
