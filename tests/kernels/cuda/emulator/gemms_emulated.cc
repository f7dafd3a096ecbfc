// Stands in for cuBLASLt (kernels/cuda/gemm/cublaslt.cc): opens a shared object that says that
// it is cuBLASLt, and computes products on the host, in stream order.
//
// Two of its algorithms give the same bits; the others give other ones somewhere, or cannot be
// used, so that a plan must not take them. They are offered first.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/layout/matrix.h"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {
namespace {

enum Algorithm : uint64_t {
  kInOrder = 1,
  kAlsoInOrder,
  kInHalves,      // sums the two halves of the inputs apart
  kLastInHalves,  // so the rows behind the first 64
  kOddInHalves,   // so all rows, where their number is no power of two
  kFromY,         // begins the sum with what it is added to
  kNotSupported,
};

std::vector<float> FromBf16(const uint16_t* values, int64_t count) {
  std::vector<float> floats(count);
  for (int64_t i = 0; i < count; ++i) floats[i] = kernels::cuda::FromBf16(values[i]);
  return floats;
}

// Sums of inputs [begin, end), for all outputs. `columns` is the weight, [inputs, outputs].
void AddInputs(const float* x, const std::vector<float>& columns, int64_t begin, int64_t end,
               std::vector<float>& sums) {
  const auto outputs = static_cast<int64_t>(sums.size());
  for (int64_t i = begin; i < end; ++i) {
    const float* const column = columns.data() + i * outputs;
    for (int64_t o = 0; o < outputs; ++o) sums[o] += x[i] * column[o];
  }
}

void Store(GemmResult result, float sum, void* y, int64_t at) {
  if (result == GemmResult::kBf16) {
    static_cast<uint16_t*>(y)[at] = ToBf16(sum);
  } else {
    auto& to = static_cast<float*>(y)[at];
    to = result == GemmResult::kAdd ? to + sum : sum;
  }
}

void Compute(const GemmShape& shape, Algorithm algorithm, const GemmOperands& operands) {
  std::vector<float> columns(int64_t{shape.inputs} * shape.outputs);
  for (int64_t o = 0; o < shape.outputs; ++o) {
    for (int64_t i = 0; i < shape.inputs; ++i) {
      columns[i * shape.outputs + o] =
          kernels::cuda::FromBf16(operands.weight[o * shape.inputs + i]);
    }
  }
  for (int64_t row = 0; row < operands.rows; ++row) {
    const std::vector<float> x = FromBf16(operands.x + row * shape.inputs, shape.inputs);
    std::vector<float> sums(shape.outputs);
    const bool from_y = algorithm == kFromY && shape.result == GemmResult::kAdd;
    if (from_y) {
      auto* const y = static_cast<float*>(operands.y) + row * shape.outputs;
      sums.assign(y, y + shape.outputs);
      std::fill_n(y, shape.outputs, 0.0f);
    }
    const bool in_halves =
        algorithm == kInHalves || (algorithm == kLastInHalves && row >= 64) ||
        (algorithm == kOddInHalves && !std::has_single_bit(static_cast<uint64_t>(operands.rows)));
    const int64_t half = in_halves ? shape.inputs / 2 : shape.inputs;
    AddInputs(x.data(), columns, 0, half, sums);
    std::vector<float> others(shape.outputs);
    AddInputs(x.data(), columns, half, shape.inputs, others);
    for (int64_t o = 0; o < shape.outputs; ++o) {
      Store(shape.result, sums[o] + others[o], operands.y, row * shape.outputs + o);
    }
  }
}

class EmulatedGemms : public GemmLibrary {
 public:
  explicit EmulatedGemms(int64_t version) : version_(version) {}

  std::string description() const override {
    return absl::StrCat("cuBLASLt ", VersionText(version_), " on the emulator");
  }

  int64_t most_rows() const override { return 256; }

  // Those of models are few: a plan tries all of them, and some many times.
  std::vector<GemmAlgorithm> Algorithms(const GemmShape& shape, int64_t rows) override {
    constexpr int64_t kSmall = 72 * 40;
    const bool many_rows = rows > 64;
    if (int64_t{shape.inputs} * shape.outputs > kSmall) {
      return many_rows ? std::vector<GemmAlgorithm>{{{kInHalves}}, {{kInOrder}}}
                       : std::vector<GemmAlgorithm>{{{kInOrder}}};
    }
    std::vector<GemmAlgorithm> algorithms = {{{kNotSupported}}, {{kInOrder}}, {{kAlsoInOrder}}};
    if (many_rows) {
      algorithms.insert(algorithms.begin(), {{{kInHalves}}, {{kLastInHalves}}, {{kOddInHalves}}});
    }
    if (many_rows && shape.result == GemmResult::kAdd) {
      algorithms.insert(algorithms.begin(), {{kFromY}});
    }
    return algorithms;
  }

  ErrorCode Multiply(const GemmShape& shape, const GemmAlgorithm& algorithm,
                     const GemmOperands& operands, Stream /*stream*/) override {
    const auto chosen = static_cast<Algorithm>(algorithm.data[0]);
    if (chosen == kNotSupported) return kGemmNotSupported;
    emulator::Launch([=] { Compute(shape, chosen, operands); });
    return 0;
  }

 private:
  const int64_t version_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GemmLibrary>> GemmLibrary::Open(const std::string& path) {
  const absl::StatusOr<OpenedLibrary> opened = OpenCublasLt(path);
  RETURN_IF_ERROR(opened.status());
  return std::make_unique<EmulatedGemms>(opened->version);
}

}  // namespace chorale::kernels::cuda
