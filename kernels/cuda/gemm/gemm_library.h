// GEMMs by cuBLASLt: y = x W^T with bfloat16 operands and float32 sums.
//
// The library is some 540 MB, so it is opened at run time, by the first model that needs it, and no
// program links it. kernels/cuda/gemm/cublaslt.cc is the only file that knows its interface;
// in tests the emulator stands in for it.
//
// Nothing here uses a workspace or splits the sum over inputs among blocks. How an algorithm sums
// is the library's own: PlanGemm (gemm_plan.h) holds every algorithm that it chooses to the
// bits of one.
#ifndef CHORALE_KERNELS_CUDA_GEMM_GEMM_LIBRARY_H_
#define CHORALE_KERNELS_CUDA_GEMM_GEMM_LIBRARY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

enum class GemmResult {
  kBf16,   // y = x W^T, rounded to bfloat16
  kFloat,  // y = x W^T, float32
  kAdd,    // y += x W^T, float32
};

struct GemmShape {
  int32_t inputs = 0;   // a multiple of 8
  int32_t outputs = 0;  // a multiple of 8
  GemmResult result = GemmResult::kFloat;
};

// Device memory, row-major, aligned to 16 bytes.
struct GemmOperands {
  const uint16_t* x = nullptr;       // [rows, inputs] bf16
  const uint16_t* weight = nullptr;  // [outputs, inputs] bf16
  void* y = nullptr;                 // [rows, outputs] bf16 or f32
  int64_t rows = 0;
};

inline constexpr ErrorCode kGemmNotSupported = 801;  // cudaErrorNotSupported

// One way of the library to compute a GEMM, in the library's own encoding.
struct GemmAlgorithm {
  std::array<uint64_t, 8> data = {};

  bool operator==(const GemmAlgorithm&) const = default;
};

// Thread contract: one thread, that of the stream.
class GemmLibrary {
 public:
  virtual ~GemmLibrary() = default;

  // Opens `path`; where that is empty, the library where the system's loader or CUDA's usual folder
  // has it. NotFound, FailedPrecondition, or Unavailable for a library that is not there, is none
  // or too old, or does not start, saying what to do about it. REQUIRES: a device is open.
  static absl::StatusOr<std::unique_ptr<GemmLibrary>> Open(const std::string& path);

  virtual std::string description() const = 0;  // for logs: "cuBLASLt 13.1.0"

  // Launches of more rows gain nothing.
  virtual int64_t most_rows() const = 0;

  // Algorithms without workspace and without split sums for a GEMM of `rows` rows; the one that
  // the library takes for the fastest comes first. Empty when it has none.
  virtual std::vector<GemmAlgorithm> Algorithms(const GemmShape& shape, int64_t rows) = 0;

  // Enqueues a GEMM. kGemmNotSupported: the algorithm cannot compute this GEMM, which
  // follows from it, the shape, the rows and the kind of GPU alone. Any other error of the library
  // is 999, unknown.
  // REQUIRES: `algorithm` is one of Algorithms(shape, n) for some n.
  virtual ErrorCode Multiply(const GemmShape& shape, const GemmAlgorithm& algorithm,
                             const GemmOperands& operands, Stream stream) = 0;
};

// The shared object at `path`, or the one to be found, opened; its version (major * 10000 + minor *
// 100 + patch) is at least kOldestCublasLt. The errors of GemmLibrary::Open.
inline constexpr int64_t kOldestCublasLt = 12'00'00;
struct OpenedLibrary {
  void* handle = nullptr;  // of dlopen; never closed
  int64_t version = 0;
};
absl::StatusOr<OpenedLibrary> OpenCublasLt(const std::string& path);

// "13.1.0".
std::string VersionText(int64_t version);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_GEMM_GEMM_LIBRARY_H_
