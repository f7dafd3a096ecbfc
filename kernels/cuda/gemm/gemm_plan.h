// Which algorithm computes a GEMM, chosen once when a model is loaded.
#ifndef CHORALE_KERNELS_CUDA_GEMM_GEMM_PLAN_H_
#define CHORALE_KERNELS_CUDA_GEMM_GEMM_PLAN_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// A launch has a multiple of kGemmRowStep rows, up to kMostGemmRows, and one algorithm for
// its size: size s is up to 64 * 2^s rows.
inline constexpr int kGemmSizes = 8;
inline constexpr int64_t kGemmRowStep = 32;
inline constexpr int64_t kSmallestGemmRows = 64;
inline constexpr int64_t kMostGemmRows = kSmallestGemmRows << (kGemmSizes - 1);

// REQUIRES: rows <= kMostGemmRows.
constexpr int GemmSizeOf(int64_t rows) {
  int size = 0;
  while (kSmallestGemmRows << size < rows) ++size;
  return size;
}

struct GemmPlan {
  GemmShape shape;
  // Of sizes 0 to sizes - 1.
  std::array<GemmAlgorithm, kGemmSizes> algorithms;
  int sizes = 0;
  // Of the bits that all its algorithms give for rows that are the same everywhere: where these
  // differ, so do the results of two plans. Where they are equal, no difference is known.
  uint64_t bits = 0;

  int64_t most_rows() const { return sizes == 0 ? 0 : kSmallestGemmRows << (sizes - 1); }
};

// Device memory that nobody else uses meanwhile.
struct GemmScratch {
  char* memory = nullptr;
  int64_t bytes = 0;
};

// Chooses an algorithm for each size of launch that pays, up to the largest whose operands fit into
// `scratch`: the fastest one of those that give, for the same rows, the bits of the library's first
// algorithm for the smallest size, at every place in a launch, of a size's fewest and of its most
// rows. The rows are such that what they give is all rounding, so any other order of summing shows,
// also of what a GEMM is added to. So a row's result depends neither on the number nor on the
// content of the rows beside it, nor on which algorithm happened to be the fastest. A size for
// which there is no such algorithm ends the plan.
//
// The first algorithm is passed over only where it is not supported, or has other bits in launches
// of 32 rows than of 64: for reasons that are the same in every process. Any other failure of it is
// an error, since the bits would be those of another one.
//
// Waits for the stream. ResourceExhausted when not even the smallest launch fits into `scratch`;
// Unavailable when the library has no algorithm for it; else CUDA's errors.
absl::StatusOr<GemmPlan> PlanGemm(GemmLibrary& library, const GemmShape& shape,
                                  const GemmScratch& scratch, Stream stream);

// REQUIRES: operands.rows is a multiple of kGemmRowStep up to plan.most_rows().
ErrorCode LaunchGemm(GemmLibrary& library, const GemmPlan& plan, const GemmOperands& operands,
                     Stream stream);

// Sets *different to 1 if rows [0, rows) of y are not repetitions of the `period` rows of
// `expected`.
struct CompareRowsParams {
  const uint32_t* y = nullptr;         // [rows, row_words], device
  const uint32_t* expected = nullptr;  // [period, row_words], device
  uint32_t* different = nullptr;       // [1], device
  int64_t rows = 0;
  int32_t row_words = 0;
  int32_t period = 0;
};

// REQUIRES: pointers are not null, sizes are positive.
ErrorCode LaunchCompareRows(const CompareRowsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_GEMM_GEMM_PLAN_H_
