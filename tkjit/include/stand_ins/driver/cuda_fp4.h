// Declares only the size and alignment of an element, because host code has pointers to elements but never reads them.
#pragma once

struct __nv_fp4x2_e2m1 {
    unsigned char bits;
};
