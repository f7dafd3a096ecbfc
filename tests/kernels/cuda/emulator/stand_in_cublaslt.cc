// What the emulator needs of cuBLASLt: its version. The products are in gemms_emulated.cc.
#include <cstddef>

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() {
  return CHORALE_CUBLASLT_VERSION;
}
