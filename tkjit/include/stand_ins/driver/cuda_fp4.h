// The size and alignment of an element. Host code only has pointers to it.
#pragma once

struct __nv_fp4x2_e2m1 {
    unsigned char bits;
};
