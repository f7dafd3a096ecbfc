#include "kernels/cuda/gemm/gemm_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/arena_layout.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/runtime/status.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int64_t kAlignment = 256;

int64_t ResultBytes(const GemmShape& shape) {
  return shape.outputs * (shape.result == GemmResult::kBf16 ? int64_t{2} : int64_t{4});
}

int64_t FewestRows(int size) {
  return (size == 0 ? 0 : kSmallestGemmRows << (size - 1)) + kGemmRowStep;
}

// How the scratch is divided for launches of up to `rows` rows.
struct ScratchLayout {
  ScratchLayout(const GemmShape& shape, int64_t rows) {
    ArenaLayout arena(kAlignment);
    weight = arena.Take<uint16_t>(int64_t{shape.outputs} * shape.inputs);
    x = arena.Take<uint16_t>(rows * shape.inputs);
    y = arena.Take<char>(rows * ResultBytes(shape));
    expected = arena.Take<char>(kSmallestGemmRows * ResultBytes(shape));
    different = arena.Take<uint32_t>(1);
    bytes = arena.bytes();
  }

  ArenaArray<uint16_t> weight;
  ArenaArray<uint16_t> x;
  ArenaArray<char> y;
  ArenaArray<char> expected;  // the result of the smallest launch
  ArenaArray<uint32_t> different;
  int64_t bytes = 0;
};

// A generator of 32 bits is good enough here.
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed) {}
  uint32_t Next() {
    state_ = state_ * 1'664'525u + 1'013'904'223u;
    return state_ >> 8;  // the low bits repeat soon
  }

 private:
  uint32_t state_;
};

// Inputs in a random order.
std::vector<int32_t> ShuffledInputs(int32_t inputs) {
  std::vector<int32_t> order(inputs);
  std::iota(order.begin(), order.end(), 0);
  Random random(1);
  for (int32_t i = inputs - 1; i > 0; --i) std::swap(order[i], order[random.Next() % (i + 1)]);
  return order;
}

// Rows of x, with `sign` -1, or of a weight, with 1, as bf16. The inputs come in pairs, at random
// places, whose terms cancel: what is left of a sum is rounding, and any other order of summing
// gives another result, also where that is rounded to bf16.
std::vector<uint16_t> CancellingRows(const std::vector<int32_t>& order, int64_t rows, float sign,
                                     uint32_t seed) {
  const auto inputs = static_cast<int64_t>(order.size());
  std::vector<uint16_t> values(rows * inputs);
  Random random(seed);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i + 1 < inputs; i += 2) {
      const float mantissa = 1 + static_cast<float>(random.Next() % 128) / 128;
      const float value = std::ldexp(mantissa, static_cast<int>(random.Next() % 8));
      const float signed_value = random.Next() % 2 == 0 ? value : -value;
      values[row * inputs + order[i]] = ToBf16(signed_value);
      values[row * inputs + order[i + 1]] = ToBf16(sign * signed_value);
    }
  }
  return values;
}

class Planner {
 public:
  Planner(GemmLibrary& library, const GemmShape& shape, const GemmScratch& scratch, int sizes,
          Stream stream)
      : library_(library),
        shape_(shape),
        memory_(scratch.memory),
        layout_(shape, kSmallestGemmRows << (sizes - 1)),
        stream_(stream) {}

  // Fills x, of launches up to the largest size, and the weight with repetitions of a few rows.
  absl::Status FillOperands(int sizes) {
    const std::vector<int32_t> order = ShuffledInputs(shape_.inputs);
    RETURN_IF_ERROR(Repeat(CancellingRows(order, kSmallestGemmRows, -1, 2),
                           kSmallestGemmRows << (sizes - 1), layout_.x.At(memory_)));
    return Repeat(CancellingRows(order, kSmallestGemmRows, 1, 3), shape_.outputs,
                  layout_.weight.At(memory_));
  }

  // Those of `candidates` that give the expected bits. What is expected is the result of the first
  // one that is supported, in the smallest launch.
  absl::StatusOr<std::vector<GemmAlgorithm>> Agreeing(const std::vector<GemmAlgorithm>& candidates,
                                                      int size) {
    std::vector<GemmAlgorithm> agreeing;
    for (const GemmAlgorithm& candidate : candidates) {
      if (std::find(agreeing.begin(), agreeing.end(), candidate) != agreeing.end()) continue;
      const bool is_first = size == 0 && agreeing.empty();
      if (is_first) {
        ASSIGN_OR_RETURN(const ErrorCode error,
                         Run(candidate, kSmallestGemmRows, layout_.expected.At(memory_)));
        if (error == kGemmNotSupported) continue;
        RETURN_IF_ERROR(ToStatus(error, "the library's first algorithm"));
      }
      absl::StatusOr<bool> agrees = Agrees(candidate, kSmallestGemmRows << size, is_first);
      if (agrees.ok() && *agrees) agrees = Agrees(candidate, FewestRows(size), is_first);
      RETURN_IF_ERROR(agrees.status());
      if (*agrees) agreeing.push_back(candidate);
    }
    return agreeing;
  }

  // Of algorithms for the most rows of a size; nothing if none works any more.
  absl::StatusOr<std::optional<GemmAlgorithm>> Fastest(const std::vector<GemmAlgorithm>& algorithms,
                                                       int size) {
    std::vector<absl::Duration> best(algorithms.size(), absl::InfiniteDuration());
    constexpr int kRounds = 3;  // in turns, so that a change of the clocks meets all
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < algorithms.size(); ++i) {
        ASSIGN_OR_RETURN(const absl::Duration time, Time(algorithms[i], kSmallestGemmRows << size));
        best[i] = std::min(best[i], time);
      }
    }
    const auto fastest = std::min_element(best.begin(), best.end());
    if (fastest == best.end() || *fastest == absl::InfiniteDuration()) return std::nullopt;
    return algorithms[fastest - best.begin()];
  }

  // Of the expected bits, by FNV-1a.
  absl::StatusOr<uint64_t> HashExpected() {
    std::vector<uint8_t> bytes(kSmallestGemmRows * ResultBytes(shape_));
    for (const ErrorCode error : {CopyToHost(bytes.data(), layout_.expected.At(memory_),
                                             static_cast<int64_t>(bytes.size()), stream_),
                                  Synchronize(stream_)}) {
      RETURN_IF_ERROR(ToStatus(error, "copying products"));
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
    return hash;
  }

 private:
  // Whether `algorithm` gives the expected bits for so many rows. For the first one, the library's
  // failures are errors.
  absl::StatusOr<bool> Agrees(const GemmAlgorithm& algorithm, int64_t rows, bool is_first) {
    ASSIGN_OR_RETURN(const ErrorCode multiplied, Run(algorithm, rows, layout_.y.At(memory_)));
    if (is_first && multiplied != kGemmNotSupported) {
      RETURN_IF_ERROR(ToStatus(multiplied, "the library's first algorithm"));
    }
    if (multiplied != 0) return false;
    uint32_t* const on_device = layout_.different.At(memory_);
    const CompareRowsParams params = {
        .y = reinterpret_cast<const uint32_t*>(layout_.y.At(memory_)),
        .expected = reinterpret_cast<const uint32_t*>(layout_.expected.At(memory_)),
        .different = on_device,
        .rows = rows,
        .row_words = static_cast<int32_t>(ResultBytes(shape_) / 4),
        .period = static_cast<int32_t>(kSmallestGemmRows)};
    uint32_t different = 0;
    for (const ErrorCode error :
         {ClearDevice(on_device, sizeof(different), stream_), LaunchCompareRows(params, stream_),
          CopyToHost(&different, on_device, sizeof(different), stream_), Synchronize(stream_)}) {
      RETURN_IF_ERROR(ToStatus(error, "comparing products"));
    }
    return different == 0;
  }

  // Infinite for one that fails.
  absl::StatusOr<absl::Duration> Time(const GemmAlgorithm& algorithm, int64_t rows) {
    constexpr int kLaunches = 10;
    RETURN_IF_ERROR(ToStatus(Synchronize(stream_), "timing a product"));
    const absl::Time start = Clock::Real()->Now();
    ErrorCode error = 0;
    for (int i = 0; i < kLaunches && error == 0; ++i) {
      error = Multiply(algorithm, rows, layout_.y.At(memory_));
    }
    RETURN_IF_ERROR(ToStatus(Synchronize(stream_), "timing a product"));
    return error == 0 ? Clock::Real()->Now() - start : absl::InfiniteDuration();
  }

  absl::Status Repeat(const std::vector<uint16_t>& rows, int64_t count, uint16_t* to) {
    for (int64_t first = 0; first < count; first += kSmallestGemmRows) {
      const int64_t elements = std::min(kSmallestGemmRows, count - first) * shape_.inputs;
      RETURN_IF_ERROR(
          ToStatus(CopyToDevice(to + first * shape_.inputs, rows.data(),
                                elements * static_cast<int64_t>(sizeof(uint16_t)), stream_),
                   "copying rows"));
    }
    return absl::OkStatus();
  }

  // The library's answer. A GEMM that is added is added twice: the second time to what is not
  // zero, so that it shows where in the sum an algorithm puts that.
  absl::StatusOr<ErrorCode> Run(const GemmAlgorithm& algorithm, int64_t rows, char* y) {
    RETURN_IF_ERROR(ToStatus(ClearDevice(y, rows * ResultBytes(shape_), stream_), "clearing"));
    ErrorCode error = Multiply(algorithm, rows, y);
    if (error == 0 && shape_.result == GemmResult::kAdd) error = Multiply(algorithm, rows, y);
    RETURN_IF_ERROR(ToStatus(Synchronize(stream_), "trying a product"));
    return error;
  }

  ErrorCode Multiply(const GemmAlgorithm& algorithm, int64_t rows, char* y) {
    return library_.Multiply(
        shape_, algorithm,
        {.x = layout_.x.At(memory_), .weight = layout_.weight.At(memory_), .y = y, .rows = rows},
        stream_);
  }

  GemmLibrary& library_;
  const GemmShape shape_;
  char* const memory_;
  const ScratchLayout layout_;
  const Stream stream_;
};

// Sizes that pay and whose operands fit.
int SizesThatFit(const GemmLibrary& library, const GemmShape& shape, const GemmScratch& scratch) {
  int sizes = 0;
  while (sizes < kGemmSizes && kSmallestGemmRows << sizes <= library.most_rows() &&
         ScratchLayout(shape, kSmallestGemmRows << sizes).bytes <= scratch.bytes) {
    ++sizes;
  }
  return sizes;
}

}  // namespace

absl::StatusOr<GemmPlan> PlanGemm(GemmLibrary& library, const GemmShape& shape,
                                  const GemmScratch& scratch, Stream stream) {
  const int sizes = SizesThatFit(library, shape, scratch);
  if (sizes == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a GEMM of ", kSmallestGemmRows, " rows with ", shape.inputs, " inputs and ", shape.outputs,
        " outputs needs ", ScratchLayout(shape, kSmallestGemmRows).bytes,
        " bytes to measure, but the workspace has ", scratch.bytes));
  }
  Planner planner(library, shape, scratch, sizes, stream);
  RETURN_IF_ERROR(planner.FillOperands(sizes));
  GemmPlan plan = {.shape = shape, .algorithms = {}};
  for (int size = 0; size < sizes; ++size) {
    std::vector<GemmAlgorithm> candidates = library.Algorithms(shape, kSmallestGemmRows << size);
    if (size > 0) candidates.push_back(plan.algorithms[size - 1]);
    ASSIGN_OR_RETURN(const std::vector<GemmAlgorithm> agreeing, planner.Agreeing(candidates, size));
    ASSIGN_OR_RETURN(const std::optional<GemmAlgorithm> fastest, planner.Fastest(agreeing, size));
    if (!fastest.has_value()) break;
    plan.algorithms[size] = *fastest;
    plan.sizes = size + 1;
  }
  if (plan.sizes > 0) {
    ASSIGN_OR_RETURN(const uint64_t bits, planner.HashExpected());
    plan.bits = bits;
    return plan;
  }
  return absl::UnavailableError(absl::StrCat(library.description(), " has no algorithm for ",
                                             shape.inputs, " inputs and ", shape.outputs,
                                             " outputs on this GPU"));
}

ErrorCode LaunchGemm(GemmLibrary& library, const GemmPlan& plan, const GemmOperands& operands,
                     Stream stream) {
  return library.Multiply(plan.shape, plan.algorithms[GemmSizeOf(operands.rows)], operands, stream);
}

}  // namespace chorale::kernels::cuda
