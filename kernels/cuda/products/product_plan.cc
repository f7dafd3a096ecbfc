#include "kernels/cuda/products/product_plan.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/arena_layout.h"
#include "base/status_macros.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/runtime/status.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int64_t kAlignment = 256;

int64_t ResultBytes(const ProductShape& shape) {
  return shape.outputs * (shape.result == ProductResult::kBf16 ? int64_t{2} : int64_t{4});
}

int64_t FewestRows(int size) {
  return (size == 0 ? 0 : kSmallestProductRows << (size - 1)) + kProductRowStep;
}

// How the scratch is divided for launches of up to `rows` rows.
struct ScratchLayout {
  ScratchLayout(const ProductShape& shape, int64_t rows) {
    ArenaLayout arena(kAlignment);
    x = arena.Take<uint16_t>(rows * shape.inputs);
    y = arena.Take<char>(rows * ResultBytes(shape));
    expected = arena.Take<char>(kSmallestProductRows * ResultBytes(shape));
    different = arena.Take<uint32_t>(1);
    bytes = arena.bytes();
  }

  ArenaArray<uint16_t> x;
  ArenaArray<char> y;
  ArenaArray<char> expected;  // the result of the smallest launch
  ArenaArray<uint32_t> different;
  int64_t bytes = 0;
};

// Numbers in [-1, 1), which differ from row to row: a generator of 32 bits does.
std::vector<uint16_t> RandomRows(int64_t elements) {
  std::vector<uint16_t> rows(elements);
  uint32_t state = 1;
  for (uint16_t& element : rows) {
    state = state * 1'664'525u + 1'013'904'223u;
    element = ToBf16(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f);
  }
  return rows;
}

class Planner {
 public:
  Planner(ProductLibrary& library, const ProductShape& shape, const uint16_t* weight,
          const ProductScratch& scratch, int sizes, Stream stream)
      : library_(library),
        shape_(shape),
        weight_(weight),
        memory_(scratch.memory),
        layout_(shape, kSmallestProductRows << (sizes - 1)),
        stream_(stream) {}

  absl::Status FillRows(int sizes) {
    const std::vector<uint16_t> rows = RandomRows(kSmallestProductRows * shape_.inputs);
    const auto bytes = static_cast<int64_t>(rows.size() * sizeof(uint16_t));
    char* to = reinterpret_cast<char*>(layout_.x.At(memory_));
    for (int i = 0; i < 1 << sizes >> 1; ++i, to += bytes) {
      RETURN_IF_ERROR(ToStatus(CopyToDevice(to, rows.data(), bytes, stream_), "copying rows"));
    }
    return absl::OkStatus();
  }

  // Whether the library can run `algorithm`, whose result is then what others must equal.
  absl::StatusOr<bool> Expect(const ProductAlgorithm& algorithm) {
    return Run(algorithm, kSmallestProductRows, layout_.expected.At(memory_));
  }

  // Whether `algorithm` gives the expected bits for so many rows.
  absl::StatusOr<bool> Agrees(const ProductAlgorithm& algorithm, int64_t rows) {
    const absl::StatusOr<bool> runs = Run(algorithm, rows, layout_.y.At(memory_));
    if (!runs.ok() || !*runs) return runs;
    uint32_t* const on_device = layout_.different.At(memory_);
    const CompareRowsParams params = {
        .y = reinterpret_cast<const uint32_t*>(layout_.y.At(memory_)),
        .expected = reinterpret_cast<const uint32_t*>(layout_.expected.At(memory_)),
        .different = on_device,
        .rows = rows,
        .row_words = static_cast<int32_t>(ResultBytes(shape_) / 4),
        .period = static_cast<int32_t>(kSmallestProductRows)};
    uint32_t different = 0;
    for (const ErrorCode error :
         {ClearDevice(on_device, sizeof(different), stream_), LaunchCompareRows(params, stream_),
          CopyToHost(&different, on_device, sizeof(different), stream_), Synchronize(stream_)}) {
      RETURN_IF_ERROR(ToStatus(error, "comparing products"));
    }
    return different == 0;
  }

 private:
  absl::StatusOr<bool> Run(const ProductAlgorithm& algorithm, int64_t rows, char* y) {
    RETURN_IF_ERROR(ToStatus(ClearDevice(y, rows * ResultBytes(shape_), stream_), "clearing"));
    const ErrorCode error = library_.Multiply(
        shape_, algorithm, {.x = layout_.x.At(memory_), .weight = weight_, .y = y, .rows = rows},
        stream_);
    RETURN_IF_ERROR(ToStatus(Synchronize(stream_), "trying a product"));
    return error == 0;
  }

  ProductLibrary& library_;
  const ProductShape shape_;
  const uint16_t* const weight_;
  char* const memory_;
  const ScratchLayout layout_;
  const Stream stream_;
};

// Sizes that pay and whose operands fit.
int SizesThatFit(const ProductLibrary& library, const ProductShape& shape,
                 const ProductScratch& scratch) {
  int sizes = 0;
  while (sizes < kProductSizes && kSmallestProductRows << sizes <= library.most_rows() &&
         ScratchLayout(shape, kSmallestProductRows << sizes).bytes <= scratch.bytes) {
    ++sizes;
  }
  return sizes;
}

}  // namespace

absl::StatusOr<ProductPlan> PlanProduct(ProductLibrary& library, const ProductShape& shape,
                                        const uint16_t* weight, const ProductScratch& scratch,
                                        Stream stream) {
  const int sizes = SizesThatFit(library, shape, scratch);
  if (sizes == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a product of ", kSmallestProductRows, " rows with ", shape.inputs, " inputs and ",
        shape.outputs, " outputs takes ", ScratchLayout(shape, kSmallestProductRows).bytes,
        " bytes to try, but there are ", scratch.bytes));
  }
  Planner planner(library, shape, weight, scratch, sizes, stream);
  RETURN_IF_ERROR(planner.FillRows(sizes));
  ProductPlan plan = {.shape = shape, .algorithms = {}, .sizes = 0};
  for (int size = 0; size < sizes; ++size) {
    const int64_t rows = kSmallestProductRows << size;
    std::vector<ProductAlgorithm> candidates = library.Algorithms(shape, rows);
    if (size > 0) candidates.push_back(plan.algorithms[size - 1]);
    for (const ProductAlgorithm& candidate : candidates) {
      if (size == 0) {
        const absl::StatusOr<bool> runs = planner.Expect(candidate);
        RETURN_IF_ERROR(runs.status());
        if (!*runs) continue;
      }
      absl::StatusOr<bool> agrees = planner.Agrees(candidate, rows);
      if (agrees.ok() && *agrees) agrees = planner.Agrees(candidate, FewestRows(size));
      RETURN_IF_ERROR(agrees.status());
      if (!*agrees) continue;
      plan.algorithms[size] = candidate;
      plan.sizes = size + 1;
      break;
    }
    if (plan.sizes == size) break;  // none of them
  }
  if (plan.sizes > 0) return plan;
  return absl::UnavailableError(absl::StrCat(library.description(), " has no algorithm for ",
                                             shape.inputs, " inputs and ", shape.outputs,
                                             " outputs on this GPU"));
}

ErrorCode LaunchProduct(ProductLibrary& library, const ProductPlan& plan,
                        const ProductOperands& operands, Stream stream) {
  return library.Multiply(plan.shape, plan.algorithms[ProductSizeOf(operands.rows)], operands,
                          stream);
}

}  // namespace chorale::kernels::cuda
