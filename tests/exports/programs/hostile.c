/* Makes invalid calls, each of which is rejected; valid calls still work afterwards. */
#include <small.h>

#include <stdio.h>
#include <string.h>

static int refused;

static void refuse(tkjit_error error) {
    if (error) ++refused;
    printf("%s\n", error ? error : "fine");
    tkjit_free_error(error);
}

int main(void) {
    const int64_t huge[] = {65536, 65536, 65536, 65536}, negative[] = {-1, 3}, two[] = {1, 2};
    const int64_t far_away[] = {INT64_MAX, 1}, backwards[] = {-2, 1};
    float memory[] = {1, 2};
    tkjit_tensor x, y = {0}, copy;
    refuse(tkjit_tensor_new(&x, TKJIT_FLOAT32, tkjit_cpu(), 4, huge));
    refuse(tkjit_tensor_view(&x, memory, TKJIT_FLOAT32, tkjit_cpu(), 4, huge, NULL));
    refuse(tkjit_tensor_view(&x, memory, TKJIT_FLOAT32, tkjit_cpu(), 2, negative, NULL));
    refuse(tkjit_tensor_view(&x, memory, TKJIT_FLOAT32, tkjit_cpu(), 9, huge, NULL));
    refuse(tkjit_tensor_view(&x, memory, TKJIT_FLOAT32, tkjit_cpu(), 2, (const int64_t[]){2, 2}, far_away));
    refuse(tkjit_tensor_view(&x, memory, TKJIT_FLOAT32, tkjit_cpu(), 2, (const int64_t[]){2, 1}, backwards));
    refuse(tkjit_tensor_view(&x, NULL, TKJIT_FLOAT32, tkjit_cpu(), 2, two, NULL));
    refuse(small_softmax_pointers(memory, memory, 3, huge, 65536, TKJIT_FLOAT32, tkjit_cpu(), NULL));
    refuse(tkjit_tensor_new(&x, TKJIT_FLOAT32, tkjit_cpu(), 2, two));
    ((float*)x.data)[0] = ((float*)x.data)[1] = 1;
    copy = x;
    refuse(tkjit_tensor_free(&x));
    refuse(tkjit_tensor_free(&copy));
    refuse(small_softmax(&copy, &y, NULL));
    refuse(small_check_interface("softmax"));
    refuse(small_softmax_pointers(memory, memory, 1, two, 2, TKJIT_FLOAT32, tkjit_cpu(), NULL));
    if (tkjit_tensor_view(&x, memory, TKJIT_FLOAT32, tkjit_cpu(), 2, two, NULL) || small_softmax(&x, &y, NULL)) return 1;
    if (((float*)y.data)[1] < 0.7f || tkjit_tensor_free(&y)) return 2;
    printf("%d refused\n", refused);
    return 0;
}
