// A head with random weights and rows, for tests and their float64 references.
#ifndef CHORALE_TESTS_KERNELS_CUDA_HEAD_HEAD_PROBLEM_H_
#define CHORALE_TESTS_KERNELS_CUDA_HEAD_HEAD_PROBLEM_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/mixture_head.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/precise_linear.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {

// Random weights and rows, and their mixtures by the CPU's float64 references.
class HeadProblem {
 public:
  // `logits`: about the deviation of the raw outputs, where `norm` is that of the normalised rows.
  explicit HeadProblem(const ModelShape& s, float logits = 2, float norm = 1, int tiles = 2)
      : shape_(s),
        tiles_(tiles),
        x_(RandomTensor(int64_t{rows()} * s.width, 1)),
        w1_(RandomTensor(s.hidden * s.width, 2, 1 / std::sqrt(static_cast<float>(s.width)))),
        w2_(RandomTensor(3 * s.components * s.hidden, 3,
                         logits / norm / std::sqrt(static_cast<float>(s.hidden)))) {
    const auto keep = [&](int64_t n, uint32_t seed, float deviation = 1) {
      vectors_.push_back(RandomTensor(n, seed, deviation));
      on_device_.emplace_back(vectors_.back());
    };
    keep(s.width, 4, norm);
    keep(s.width, 5, norm);
    keep(s.hidden, 6);
    keep(3 * s.components, 7);
    for (uint32_t seed : {8, 9, 10}) keep(s.components, seed);
    const Matrix w1 = {w1_, s.hidden, s.width};
    const Matrix w2 = {w2_, 3 * s.components, s.hidden};
    scales_ = HeadScalesOf(vectors_[0], vectors_[1], w1, vectors_[2], w2);
    maps_.emplace_back(PackHeadMap(w1, scales_.w1));
    maps_.emplace_back(PackHeadMap(w2, scales_.w2));
    device_x_ = DeviceArray<float>(x_);
    MakeReference();
  }

  HeadParams Params(const DeviceArray<Tile>& tiles) const {
    return {.tiles = tiles.data(),
            .x = device_x_.data(),
            .weights = {.gamma = on_device_[0].data(),
                        .beta = on_device_[1].data(),
                        .w1 = maps_[0].data(),
                        .b1 = on_device_[2].data(),
                        .w2 = maps_[1].data(),
                        .b2 = on_device_[3].data(),
                        .mean_bias = on_device_[4].data(),
                        .std_bias = on_device_[5].data(),
                        .weight_bias = on_device_[6].data(),
                        .scales = scales_},
            .tile_count = tiles_,
            .shape = shape_,
            .epsilon = 1e-5f,
            .std_min = 0.01f,
            .std_max = 1.5f};
  }

  int rows() const { return tiles_ * 64; }

  // The same head in its unfused form: W1 z is in memory, for all rows or the query rows.
  UnfusedHeadParams WideParams(const DeviceArray<Tile>& tiles, bool of_paths) {
    const int padded = (shape_.hidden + 7) / 8 * 8;
    std::vector<float> h;
    for (int row = 0; row < rows(); ++row) {
      if (of_paths && row % 16 >= 8) continue;
      h.insert(h.end(), hidden_.begin() + row * shape_.hidden,
               hidden_.begin() + (row + 1) * shape_.hidden);
      h.resize(h.size() + padded - shape_.hidden);
    }
    std::vector<float> b1 = vectors_[2];
    b1.resize(padded);
    Matrix w2 = {{}, 3 * shape_.components, padded};
    for (int o = 0; o < w2.out; ++o) {
      w2.values.insert(w2.values.end(), w2_.begin() + o * shape_.hidden,
                       w2_.begin() + (o + 1) * shape_.hidden);
      w2.values.resize((o + 1) * w2.in);
    }
    wide_.clear();
    for (const std::vector<float>& values : {h, b1}) wide_.emplace_back(values);
    wide_w2_ = DeviceArray<uint16_t>(PackHeadMap(w2, scales_.w2));
    HeadParams head = Params(tiles);
    head.x = nullptr;
    head.weights.w1 = nullptr;
    head.weights.b1 = wide_[1].data();
    head.weights.w2 = wide_w2_.data();
    head.shape.hidden = padded;
    return {.head = head, .h = wide_[0].data()};
  }

  MixtureView Mixture(int row) const {
    const int m = shape_.components;
    return {mean_.data() + row * m, std_.data() + row * m, log_weight_.data() + row * m, m};
  }

 private:
  void MakeReference() {
    const ModelShape& s = shape_;
    std::vector<float> z(x_.size());
    reference::LayerNorm({.x = x_.data(),
                          .gamma = vectors_[0].data(),
                          .beta = vectors_[1].data(),
                          .y = z.data(),
                          .rows = rows(),
                          .width = s.width});
    std::vector<float> packed(PackedLinearSize(s.hidden, s.width));
    PackLinearWeight(w1_.data(), s.hidden, s.width, packed.data());
    std::vector<float> hidden(rows() * s.hidden);
    hidden_.resize(hidden.size());
    LinearParams w1 = {.x = z.data(),
                       .weight = packed.data(),
                       .y = hidden_.data(),
                       .rows = rows(),
                       .in = s.width,
                       .out = s.hidden,
                       .x_stride = s.width,
                       .y_stride = s.hidden};
    reference::Linear(w1);
    w1.bias = vectors_[2].data();
    w1.y = hidden.data();
    w1.activation = Activation::kGelu;
    reference::Linear(w1);
    const int outputs = 3 * s.components;
    packed.resize(PackedLinearSize(outputs, s.hidden));
    PackLinearWeight(w2_.data(), outputs, s.hidden, packed.data());
    std::vector<double> raw(rows() * outputs);
    reference::PreciseLinear({.x = hidden.data(),
                              .weight = packed.data(),
                              .bias = vectors_[3].data(),
                              .y = raw.data(),
                              .rows = rows(),
                              .in = s.hidden,
                              .out = outputs,
                              .x_stride = s.hidden,
                              .y_stride = outputs});
    for (std::vector<double>* v : {&mean_, &std_, &log_weight_}) v->resize(rows() * s.components);
    reference::MixtureHead({.raw = raw.data(),
                            .mean_bias = vectors_[4].data(),
                            .std_bias = vectors_[5].data(),
                            .weight_bias = vectors_[6].data(),
                            .mean = mean_.data(),
                            .std = std_.data(),
                            .log_weight = log_weight_.data(),
                            .rows = rows(),
                            .components = s.components,
                            .raw_stride = outputs,
                            .std_min = 0.01f,
                            .std_max = 1.5f});
  }

  const ModelShape shape_;
  const int tiles_;
  const std::vector<float> x_, w1_, w2_;
  std::vector<std::vector<float>> vectors_;
  std::vector<DeviceArray<float>> on_device_;
  std::vector<DeviceArray<uint16_t>> maps_;
  HeadScales scales_;
  DeviceArray<float> device_x_;
  std::vector<float> hidden_;  // W1 z
  std::vector<DeviceArray<float>> wide_;
  DeviceArray<uint16_t> wide_w2_;
  std::vector<double> mean_, std_, log_weight_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_HEAD_HEAD_PROBLEM_H_
