#include "tests/engine/backend/cuda/device_oracle.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/engine/backend/cuda/device_oracle_kernels.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::device_oracle {

using kernels::cuda::DeviceArray;
using reference::Mixture;
using reference::Rows;
using reference::Vector;
using Array = DeviceArray<double>;

// ---- cuBLAS ---------------------------------------------------------------------------------

// Operations of cuBLAS; 0 is success.
constexpr int kAsStored = 0;    // CUBLAS_OP_N
constexpr int kTransposed = 1;  // CUBLAS_OP_T

struct Cublas {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*dgemm)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
               const double* alpha, const double* a, int lda, const double* b, int ldb,
               const double* beta, double* c, int ldc) = nullptr;
};

namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

void* OpenFirst(const std::string& path) {
  if (!path.empty()) return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const char* name : {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13",
                           "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.12"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Cublas>> OpenCublas(const std::string& path,
                                                         const std::string& cublaslt_path) {
  // The loader then takes this one for what libcublas needs, whatever folder it lies in.
  const auto cublaslt = kernels::cuda::OpenCublasLt(cublaslt_path);
  if (!cublaslt.ok()) return cublaslt.status();
  void* const library = OpenFirst(path);
  if (library == nullptr) {
    const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): each thread has its own
    return absl::NotFoundError(absl::StrCat("there is no libcublas: ", why == nullptr ? "" : why));
  }
  const auto found = std::make_shared<Cublas>();
  if (Find(library, "cublasCreate_v2", &found->create) &&
      Find(library, "cublasDestroy_v2", &found->destroy) &&
      Find(library, "cublasDgemm_v2", &found->dgemm)) {
    return found;
  }
  return absl::NotFoundError(absl::StrCat(path, " is not libcublas"));
}

// ---- Weights and keys -----------------------------------------------------------------------

namespace {

void Check(int error, const char* what) { Require(error == 0, what); }

Array Upload(const std::vector<float>& values) {
  return Array(std::vector<double>(values.begin(), values.end()));
}

struct Norm {
  explicit Norm(const LayerNormWeights& weights)
      : gamma(Upload(weights.gamma)), beta(Upload(weights.beta)) {}
  Array gamma, beta;
};

// What reference_forward.cc calls markers.
enum Role { kQueryRow = 0, kContext = 1, kBuffer = 2 };

void AddVector(const std::vector<float>& from, int64_t row, double factor, Vector& token) {
  const auto d = static_cast<int64_t>(token.size());
  for (int64_t i = 0; i < d; ++i) token[i] += from[row * d + i] * factor;
}

Vector TokenOf(const Model& model, Vector encoding, Role role) {
  AddVector(model.embedding.marker, role, 1, encoding);
  return encoding;
}

void AddValue(const Model& model, double y, Vector& token) {
  AddVector(model.embedding.y_weight, 0, y, token);
  AddVector(model.embedding.y_bias, 0, 1, token);
}

Array UploadRows(const Rows& rows) {
  std::vector<double> all;
  all.reserve(rows.size() * rows.front().size());
  for (const Vector& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Array(all);
}

Mixture MixtureOf(const Model& model, const double* raw) {
  const HeadWeights& head = model.head;
  Mixture mixture;
  for (int64_t j = 0; j < model.config.num_components; ++j) {
    const auto output = [&](int64_t i) { return raw[3 * j + i] + head.b2[3 * j + i]; };
    const double s = output(1) + head.std_bias[j];
    const double softplus = std::max(s, 0.0) + std::log1p(std::exp(-std::abs(s)));
    mixture.mean.push_back(output(0) + head.mean_bias[j]);
    mixture.std.push_back(std::min<double>(softplus, model.config.std_max) + model.config.std_min);
    mixture.log_weight.push_back(output(2) + head.weight_bias[j]);
  }
  const double lse = reference::LogSumExp(mixture.log_weight);
  for (double& log_weight : mixture.log_weight) log_weight -= lse;
  return mixture;
}

}  // namespace

struct DeviceOracle::Layer {
  explicit Layer(const LayerWeights& w)
      : feature(Upload(w.feature)),
        wq(Upload(w.wq)),
        wk(Upload(w.wk)),
        wv(Upload(w.wv)),
        wo(Upload(w.wo)),
        w1(Upload(w.w1)),
        b1(Upload(w.b1)),
        w2(Upload(w.w2)),
        b2(Upload(w.b2)),
        norm1(w.norm1),
        norm2(w.norm2),
        norm3(w.norm3) {}

  Array feature, wq, wk, wv, wo, w1, b1, w2, b2;
  Norm norm1, norm2, norm3;
};

struct DeviceOracle::Weights {
  explicit Weights(const Model& model)
      : head_norm(model.head.norm),
        head_w1(Upload(model.head.w1)),
        head_b1(Upload(model.head.b1)),
        head_w2(Upload(model.head.w2)) {
    for (const LayerWeights& layer : model.layers) layers.emplace_back(layer);
  }

  std::vector<Layer> layers;
  Norm head_norm;
  Array head_w1, head_b1, head_w2;
};

// Of the context's rows in one layer, [rows, Hkv Dh].
struct DeviceOracle::KeysAndValues {
  Array k, v;
};

// ---- Rows through the layers ----------------------------------------------------------------

// All rows of a piece of work, which go through a layer before the next one begins.
class DeviceOracle::Pass {
 public:
  enum class Keys { kOfRows, kOfContext, kOfContextAndPath };

  // `query_rows`: T, with kOfContextAndPath; rows are then those of OwnKeys.
  Pass(const DeviceOracle& oracle, const Rows& rows, Keys keys, int64_t query_rows)
      : o_(oracle),
        config_(oracle.model_.config),
        rows_(static_cast<int64_t>(rows.size())),
        keys_(keys),
        query_rows_(query_rows),
        x_(UploadRows(rows)),
        y_(rows_ * config_.d_model),
        q_(rows_ * config_.d_model),
        k_(rows_ * config_.kv_width()),
        v_(rows_ * config_.kv_width()),
        attended_(rows_ * config_.d_model),
        hidden_(rows_ * config_.d_ff),
        context_rows_(keys == Keys::kOfRows ? rows_ : oracle.context_rows_),
        columns_(context_rows_ + query_rows),
        block_rows_(std::clamp<int64_t>(kScores / columns_, 1, rows_)),
        scores_(block_rows_ * columns_) {}

  // x = LN1(x + P x), and its keys and values.
  void PreAttention(const Layer& layer) {
    const int64_t d = config_.d_model;
    Multiply(x_.data(), d, layer.feature, d, y_.data());
    Normalize(&y_, nullptr, layer.norm1);
    Multiply(x_.data(), d, layer.wk, config_.kv_width(), k_.data());
    Multiply(x_.data(), d, layer.wv, config_.kv_width(), v_.data());
  }

  // `context` is not looked at with kOfRows.
  void AttentionAndMlp(const Layer& layer, const KeysAndValues* context) {
    const int64_t d = config_.d_model;
    Multiply(x_.data(), d, layer.wq, d, q_.data());
    const double* const keys = keys_ == Keys::kOfRows ? k_.data() : context->k.data();
    const double* const values = keys_ == Keys::kOfRows ? v_.data() : context->v.data();
    for (int64_t head = 0; head < config_.n_heads; ++head) {
      for (int64_t first = 0; first < rows_; first += block_rows_) {
        Attend(head, first, std::min(block_rows_, rows_ - first), keys, values);
      }
    }
    Multiply(attended_.data(), d, layer.wo, d, y_.data());
    Normalize(&y_, nullptr, layer.norm2);
    Multiply(x_.data(), d, layer.w1, config_.d_ff, hidden_.data());
    Check(AddBiasAndGelu(hidden_.data(), layer.b1.data(), rows_, config_.d_ff), "GELU");
    Multiply(hidden_.data(), config_.d_ff, layer.w2, d, y_.data());
    Normalize(&y_, &layer.b2, layer.norm3);
  }

  // The mixtures of rows [first, rows).
  std::vector<Mixture> Head(int64_t first) {
    const Weights& w = *o_.weights_;
    const int64_t outputs = 3 * config_.num_components;
    const Array raw(rows_ * outputs);
    Normalize(nullptr, nullptr, w.head_norm);
    Multiply(x_.data(), config_.d_model, w.head_w1, config_.d_ff, hidden_.data());
    Check(AddBiasAndGelu(hidden_.data(), w.head_b1.data(), rows_, config_.d_ff), "GELU");
    Multiply(hidden_.data(), config_.d_ff, w.head_w2, outputs, raw.data());
    const std::vector<double> on_host = raw.ToHost(nullptr);
    std::vector<Mixture> mixtures;
    for (int64_t row = first; row < rows_; ++row) {
      mixtures.push_back(MixtureOf(o_.model_, on_host.data() + row * outputs));
    }
    return mixtures;
  }

  KeysAndValues TakeKeysAndValues() {
    KeysAndValues taken = {std::move(k_), std::move(v_)};
    k_ = Array(rows_ * config_.kv_width());
    v_ = Array(rows_ * config_.kv_width());
    return taken;
  }

 private:
  static constexpr int64_t kScores = 64 << 20;  // half a gigabyte

  // y [rows, outputs] = x [rows, inputs] w^T with w [outputs, inputs], of all rows. cuBLAS takes
  // matrices by columns, so that ours are theirs, transposed: y^T = w x^T.
  void Multiply(const double* x, int64_t inputs, const Array& w, int64_t outputs, double* y) const {
    Multiply(kTransposed, rows_, x, inputs, inputs, w.data(), inputs, outputs, 1, y, outputs);
  }

  // y [rows, outputs] = factor x [rows, inputs] w, with w [inputs, outputs] as stored, or w^T of
  // what is stored. A stride is what lies between rows as they are stored.
  void Multiply(int w_is, int64_t rows, const double* x, int64_t inputs, int64_t x_stride,
                const double* w, int64_t w_stride, int64_t outputs, double factor, double* y,
                int64_t y_stride) const {
    const double zero = 0;
    const auto as_int = [](int64_t n) { return static_cast<int>(n); };
    Check(o_.cublas_->dgemm(o_.handle_, w_is, kAsStored, as_int(outputs), as_int(rows),
                            as_int(inputs), &factor, w, as_int(w_stride), x, as_int(x_stride),
                            &zero, y, as_int(y_stride)),
          "cuBLAS multiplies");
  }

  void Normalize(const Array* y, const Array* bias, const Norm& norm) const {
    Check(AddAndNormalize(x_.data(), y == nullptr ? nullptr : y->data(),
                          bias == nullptr ? nullptr : bias->data(), norm.gamma.data(),
                          norm.beta.data(), rows_, config_.d_model, config_.layer_norm_eps),
          "a norm");
  }

  // One head of rows [first, first + rows).
  void Attend(int64_t head, int64_t first, int64_t rows, const double* keys,
              const double* values) const {
    const int64_t width = config_.head_dim();
    const int64_t stride = config_.d_model;
    const int64_t kv_stride = config_.kv_width();
    const int64_t kv_begin = head / (config_.n_heads / config_.n_kv_heads) * width;
    const double* const q = q_.data() + head * width;
    double* const attended = attended_.data() + head * width;
    const OwnKeys own = {.query_rows = query_rows_,
                         .tokens = rows_ / 2,
                         .head_dim = width,
                         .q = q,
                         .q_stride = stride,
                         .k = k_.data() + kv_begin,
                         .v = v_.data() + kv_begin,
                         .kv_stride = kv_stride,
                         .scores = scores_.data(),
                         .columns = columns_,
                         .attended = attended,
                         .first_row = first,
                         .rows = rows};
    const bool has_own = keys_ == Keys::kOfContextAndPath;
    Multiply(kTransposed, rows, q + first * stride, width, stride, keys + kv_begin, kv_stride,
             context_rows_, 1 / std::sqrt(static_cast<double>(width)), scores_.data(), columns_);
    if (has_own) Check(ScoreOwnKeys(own), "scores of a path's keys");
    Check(Softmax(scores_.data(), rows, columns_), "softmax");
    Multiply(kAsStored, rows, scores_.data(), context_rows_, columns_, values + kv_begin, kv_stride,
             width, 1, attended + first * stride, stride);
    if (has_own) Check(AddOwnValues(own), "values of a path's keys");
  }

  const DeviceOracle& o_;
  const ModelConfig& config_;
  const int64_t rows_;
  const Keys keys_;
  const int64_t query_rows_;
  const Array x_, y_;     // [rows, D]
  const Array q_;         // [rows, H Dh]
  Array k_, v_;           // [rows, Hkv Dh]
  const Array attended_;  // [rows, H Dh]
  const Array hidden_;    // [rows, Dff]
  const int64_t context_rows_;
  const int64_t columns_;
  const int64_t block_rows_;
  const Array scores_;  // [block rows, columns]
};

DeviceOracle::DeviceOracle(const Model& model, std::shared_ptr<const Cublas> cublas)
    : model_(model), cublas_(std::move(cublas)) {
  Require(std::holds_alternative<FeatureMeanWeights>(model.row_encoder),
          "the oracle knows the row encoder");
  Check(cublas_->create(&handle_), "cuBLAS starts");
  weights_ = std::make_unique<const Weights>(model);
}

DeviceOracle::~DeviceOracle() { cublas_->destroy(handle_); }

void DeviceOracle::EncodeContext(const FeatureMatrix& x, const std::vector<float>& y) {
  Rows rows = reference::EncodeRows(model_, x, y, x);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = TokenOf(model_, std::move(rows[i]), kContext);
    AddValue(model_, y[i], rows[i]);
  }
  context_.clear();
  context_rows_ = x.rows;
  Pass pass(*this, rows, Pass::Keys::kOfRows, 0);
  for (const Layer& layer : weights_->layers) {
    pass.PreAttention(layer);
    // Nothing reads what the last layer makes of a context row.
    if (&layer != &weights_->layers.back()) pass.AttentionAndMlp(layer, nullptr);
    context_.push_back(pass.TakeKeysAndValues());
  }
}

std::vector<Mixture> DeviceOracle::Predict(const FeatureMatrix& query_rows) {
  Rows rows;
  for (Vector& encoding : reference::EncodeRows(model_, query_rows, {}, query_rows)) {
    rows.push_back(TokenOf(model_, std::move(encoding), kQueryRow));
  }
  Pass pass(*this, rows, Pass::Keys::kOfContext, 0);
  for (size_t l = 0; l < context_.size(); ++l) {
    pass.PreAttention(weights_->layers[l]);
    pass.AttentionAndMlp(weights_->layers[l], &context_[l]);
  }
  return pass.Head(0);
}

std::vector<Mixture> DeviceOracle::TeacherForce(const FeatureMatrix& query_rows,
                                                const std::vector<int32_t>& order,
                                                const std::vector<float>& values, int64_t paths) {
  const Rows encodings = reference::EncodeRows(model_, query_rows, {}, query_rows);
  const int64_t count = query_rows.rows;
  const int64_t tokens = paths * count;
  Rows rows(2 * tokens);
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t position = i % count;
    const Vector& encoding = encodings[order.empty() ? position : order[i]];
    rows[i] = TokenOf(model_, encoding, kBuffer);
    AddValue(model_, values[position * paths + i / count], rows[i]);
    AddVector(model_.embedding.ar_tokens, position % model_.config.buffer_size, 1, rows[i]);
    rows[tokens + i] = TokenOf(model_, encoding, kQueryRow);
  }
  Pass pass(*this, rows, Pass::Keys::kOfContextAndPath, count);
  for (size_t l = 0; l < context_.size(); ++l) {
    pass.PreAttention(weights_->layers[l]);
    pass.AttentionAndMlp(weights_->layers[l], &context_[l]);
  }
  return pass.Head(tokens);
}

}  // namespace chorale::device_oracle
