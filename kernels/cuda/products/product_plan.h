// Which algorithm computes a product, chosen once when a model is loaded.
#ifndef CHORALE_KERNELS_CUDA_PRODUCTS_PRODUCT_PLAN_H_
#define CHORALE_KERNELS_CUDA_PRODUCTS_PRODUCT_PLAN_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/products/product_library.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// A launch has a multiple of kProductRowStep rows, up to kMostProductRows, and one algorithm for
// its size: size s is up to 64 * 2^s rows.
inline constexpr int kProductSizes = 8;
inline constexpr int64_t kProductRowStep = 32;
inline constexpr int64_t kSmallestProductRows = 64;
inline constexpr int64_t kMostProductRows = kSmallestProductRows << (kProductSizes - 1);

// REQUIRES: rows <= kMostProductRows.
constexpr int ProductSizeOf(int64_t rows) {
  int size = 0;
  while (kSmallestProductRows << size < rows) ++size;
  return size;
}

struct ProductPlan {
  ProductShape shape;
  // Of sizes 0 to sizes - 1.
  std::array<ProductAlgorithm, kProductSizes> algorithms;
  int sizes = 0;
  // Of the bits that all its algorithms give for rows that are the same everywhere: where these
  // differ, so do the results of two plans. Where they are equal, no difference is known.
  uint64_t bits = 0;

  int64_t most_rows() const { return sizes == 0 ? 0 : kSmallestProductRows << (sizes - 1); }
};

// Device memory that nobody else uses meanwhile.
struct ProductScratch {
  char* memory = nullptr;
  int64_t bytes = 0;
};

// Chooses an algorithm for each size of launch that pays, up to the largest whose operands fit into
// `scratch`: the fastest one of those that give, for the same rows, the bits of the library's first
// algorithm for the smallest size, at every place in a launch, of a size's fewest and of its most
// rows. The rows are such that what they give is all rounding, so any other order of summing shows,
// also of what a product is added to. So a row's result depends neither on the number nor on the
// content of the rows beside it, nor on which algorithm happened to be the fastest. A size for
// which there is no such algorithm ends the plan.
//
// The first algorithm is passed over only where it is not supported, or has other bits in launches
// of 32 rows than of 64: for reasons that are the same in every process. Any other failure of it is
// an error, since the bits would be those of another one.
//
// Waits for the stream. ResourceExhausted when not even the smallest launch fits into `scratch`;
// Unavailable when the library has no algorithm for it; else CUDA's errors.
absl::StatusOr<ProductPlan> PlanProduct(ProductLibrary& library, const ProductShape& shape,
                                        const ProductScratch& scratch, Stream stream);

// REQUIRES: operands.rows is a multiple of kProductRowStep up to plan.most_rows().
ErrorCode LaunchProduct(ProductLibrary& library, const ProductPlan& plan,
                        const ProductOperands& operands, Stream stream);

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

#endif  // CHORALE_KERNELS_CUDA_PRODUCTS_PRODUCT_PLAN_H_
