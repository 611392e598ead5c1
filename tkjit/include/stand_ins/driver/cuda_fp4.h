// An element's size and alignment: host code only points to it.
#pragma once

struct __nv_fp4x2_e2m1 {
    unsigned char bits;
};
