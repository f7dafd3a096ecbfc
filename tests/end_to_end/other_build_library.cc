// What another build's library of the GPU backend looks like to the program that opens it.

namespace {
struct Entry {
  const char* build;
  void* new_backend;
};
}  // namespace

extern "C" __attribute__((visibility("default")))
const Entry chorale_cuda_library = {"another build", nullptr};
