// An element's size and alignment: host code only points to it.
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
