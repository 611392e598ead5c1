// Makes a tensor map from the given numbers, and returns the driver's error code.
#include <cuda.h>
#include <tkjit/driver.h>

// numbers: type, rank, offset of the address, interleave, swizzle, promotion, fill, offset of the map; then for each of 5
// dimensions the extent, the next dimension's stride in bytes, the extent of the box, the element stride.
void encode(int* result, const int64_t* numbers) {
    alignas(64) static char memory[256];
    alignas(64) static char room[256];
    cuuint64_t sizes[5], strides[5];
    cuuint32_t box[5], steps[5];
    for (int i = 0; i < 5; i++) {
        const int64_t* const own = numbers + 8 + 4 * i;
        sizes[i] = own[0], strides[i] = own[1], box[i] = own[2], steps[i] = own[3];
    }
    *result = cuTensorMapEncodeTiled(reinterpret_cast<CUtensorMap*>(room + numbers[7]), CUtensorMapDataType(numbers[0]), numbers[1],
                                     memory + numbers[2], sizes, strides, box, steps, CUtensorMapInterleave(numbers[3]),
                                     CUtensorMapSwizzle(numbers[4]), CUtensorMapL2promotion(numbers[5]),
                                     CUtensorMapFloatOOBfill(numbers[6]));
}
