// The row encoder "cell_attention": attention in columns, then in rows.
//
//   fit, per column f of the context:
//     cell_rf  = Wc cell_features(x_rf) + bc + Wt number_features(y_r)
//     points_f = summarise(points; cell_.f)              I inducing points attend to the cells
//   then, among the columns:
//     column_f  = mix_columns(mean_i points_fi + column_id_f)
//     points_f += column_f
//     gate_f    = Wg column_f + bg
//
//   encode, per row, with these points:
//     cell_f   = Wc cell_features(x_f) + bc
//     gated    = sum_f gate_f * cell_f                   elementwise
//     cell_f   = read_column(cell_f; points_f) + column_id_f
//     cell     = row_layer(cell) for each layer          the cells of the row attend to each other
//     z        = pool(pooled; cell)                      P seed tokens attend to the cells
//     encoding = LN(Wo flatten(LN(z)) + bo + Wd gated)
//
// where block(x; m) is the attention block of engine/model/row_encoder_weights.h with memory m.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/integer_math.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/host/normalize.h"
#include "engine/backend/host/packed_linear.h"
#include "engine/backend/row_encoder/cell_columns.h"
#include "engine/backend/row_encoder/encoder_block.h"
#include "engine/backend/row_encoder/row_encoder.h"
#include "kernels/ops/cell_features.h"

namespace chorale {
namespace {

// Cells per pass through the layers: few enough for their tokens to stay in the L2 cache.
constexpr int64_t kBlockCells = 512;

// The scratch memory of one thread during encoding.
struct CellScratch {
  AlignedBuffer features;  // [cells, kCellFeatures (+ kNumberFeatures)]
  AlignedBuffer column;    // [cells of a column, E]
  AlignedBuffer cells;     // [rows, F, E]
  AlignedBuffer pooled;    // [rows, P, E]
  AlignedBuffer gated;     // [rows, E]
  AlignedBuffer direct;    // [rows, D]
  EncoderBlock::Scratch block;
};

// Immutable and thread-safe.
struct CellAttention {
  CellAttention(const CellAttentionWeights& weights, const ModelConfig& config);

  // Writes cell_rf of rows [first, first + rows) of a column to out [rows, E]; with y, including
  // the target as in the fit.
  void EmbedColumn(const FeatureMatrix& features, int64_t column, int64_t first, int64_t rows,
                   const float* y, CellScratch& scratch, float* out) const;

  const int64_t width;            // E
  const int64_t inducing_points;  // I
  const int64_t seed_tokens;      // P
  const float epsilon;
  const PackedLinear cell;
  const PackedLinear cell_and_target;
  const std::vector<float> column_id;
  const std::vector<float> points;
  const std::vector<float> pooled;
  const EncoderBlock summarise;
  const CellColumnMixer mixer;
  const EncoderBlock read_column;
  std::vector<EncoderBlock> row_layers;
  const EncoderBlock pool;
  const PackedLinear direct;
  const LayerNormWeights out_norm;
  const PackedLinear out;
  const LayerNormWeights norm;
};

// [E, kCellFeatures + kNumberFeatures]: a single map for a cell and its row's target.
std::vector<float> SideBySide(const std::vector<float>& cell, const std::vector<float>& target) {
  std::vector<float> joined;
  const auto rows = static_cast<int64_t>(cell.size()) / kernels::kCellFeatures;
  for (int64_t row = 0; row < rows; ++row) {
    const float* left = cell.data() + row * kernels::kCellFeatures;
    const float* right = target.data() + row * kernels::kNumberFeatures;
    joined.insert(joined.end(), left, left + kernels::kCellFeatures);
    joined.insert(joined.end(), right, right + kernels::kNumberFeatures);
  }
  return joined;
}

CellAttention::CellAttention(const CellAttentionWeights& weights, const ModelConfig& config)
    : width(config.encoder_width),
      inducing_points(config.encoder_induced_points),
      seed_tokens(config.encoder_pooled_tokens),
      epsilon(config.layer_norm_eps),
      cell(weights.cell, weights.cell_bias, width, kernels::kCellFeatures),
      cell_and_target(SideBySide(weights.cell, weights.target), weights.cell_bias, width,
                      kernels::kCellFeatures + kernels::kNumberFeatures),
      column_id(weights.column_id),
      points(weights.points),
      pooled(weights.pooled),
      summarise(weights.summarise, width, config.encoder_heads, epsilon),
      mixer(weights, config),
      read_column(weights.read_column, width, config.encoder_heads, epsilon),
      pool(weights.pool, width, config.encoder_heads, epsilon),
      direct(weights.direct, {}, config.d_model, width),
      out_norm(weights.out_norm),
      out(weights.out, weights.out_bias, config.d_model, seed_tokens * width),
      norm(weights.norm) {
  for (const EncoderBlockWeights& layer : weights.row_layers) {
    row_layers.emplace_back(layer, width, config.encoder_heads, epsilon);
  }
}

void CellAttention::EmbedColumn(const FeatureMatrix& features, int64_t column, int64_t first,
                                int64_t rows, const float* y, CellScratch& scratch,
                                float* out) const {
  const int64_t place = first * features.features + column;
  kernels::CellFeaturesParams params = {
      .values = features.x.data() + place,
      .missing = features.missing.empty() ? nullptr : features.missing.data() + place,
      .y = y,
      .rows = rows,
      .value_stride = features.features,
      .categorical =
          !features.categorical.empty() && features.categorical[column] != 0 ? 1.0f : 0.0f};
  scratch.features.Reserve(rows * params.width());
  params.out = scratch.features.data();
  kernels::CellFeatures(params);
  (y == nullptr ? cell : cell_and_target).Apply(rows, params.out, params.width(), out);
}

void AddTo(const float* more, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] += more[i];
}

void AddProductTo(const float* a, const float* b, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] += a[i] * b[i];
}

// The keys and values of each column's points, for read_column, and its gate.
class ColumnStates : public RowEncoderState {
 public:
  ColumnStates(const CellAttention& model, CellColumns columns)
      : size_(model.read_column.KvSize(model.inducing_points)),
        memory_(columns.columns * size_),
        gates_(std::move(columns.gates)) {
    EncoderBlock::Scratch scratch;
    const int64_t n = model.inducing_points;
    for (int64_t f = 0; f < columns.columns; ++f) {
      model.read_column.WriteKv(n, columns.points.data() + f * n * model.width, 0,
                                model.read_column.KvAt(memory_.data() + f * size_, n), scratch);
    }
  }
  KvView<const float> Column(const CellAttention& model, int64_t f) const {
    return model.read_column.KvAt(memory_.data() + f * size_, model.inducing_points);
  }
  const float* Gate(const CellAttention& model, int64_t f) const {
    return gates_.data() + f * model.width;
  }

  // The columns in order, each with its gate, then its keys and values.
  std::string Bytes() const override {
    std::string bytes;
    const auto append = [&bytes](const float* values, int64_t count) {
      bytes.append(reinterpret_cast<const char*>(values), count * sizeof(float));
    };
    const auto width = static_cast<int64_t>(gates_.size()) * size_ / memory_.size();
    for (int64_t f = 0; f < memory_.size() / size_; ++f) {
      append(gates_.data() + f * width, width);
      append(memory_.data() + f * size_, size_);
    }
    return bytes;
  }
  // REQUIRES: bytes.size() is a positive multiple of BytesOfColumn.
  ColumnStates(const CellAttention& model, absl::string_view bytes)
      : size_(model.read_column.KvSize(model.inducing_points)) {
    const auto columns = static_cast<int64_t>(bytes.size()) / BytesOfColumn(model);
    memory_.Reserve(columns * size_);
    gates_.resize(columns * model.width);
    const auto take = [&bytes](float* values, int64_t count) {
      std::memcpy(values, bytes.data(), count * sizeof(float));
      bytes.remove_prefix(count * sizeof(float));
    };
    for (int64_t f = 0; f < columns; ++f) {
      take(gates_.data() + f * model.width, model.width);
      take(memory_.data() + f * size_, size_);
    }
  }
  static int64_t BytesOfColumn(const CellAttention& model) {
    return (model.width + model.read_column.KvSize(model.inducing_points)) *
           static_cast<int64_t>(sizeof(float));
  }

 private:
  const int64_t size_;
  AlignedBuffer memory_;      // [F] of size_
  std::vector<float> gates_;  // [F, E]
};

// The rows of a task, whose cells' keys and values are in memory together.
constexpr int64_t kFitRows = 16'384;

// A task processes a part of the rows of one column: to a softmax state of the inducing points.
// The last task of a column combines the states.
class CellAttentionFit : public RowEncoderFit {
 public:
  CellAttentionFit(const CellAttention& model, const FeatureMatrix& context,
                   absl::Span<const float> y)
      : model_(model),
        context_(context),
        y_(y),
        rows_(static_cast<int64_t>(y.size())),
        parts_(CeilDiv(rows_, kFitRows)),
        points_(context.features * model.inducing_points * model.width),
        states_(context.features * parts_),
        parts_left_(context.features) {
    for (std::atomic<int64_t>& left : parts_left_) left = parts_;
  }

  int64_t tasks() const override { return context_.features * parts_; }

  double task_flops() const override {
    const auto rows = static_cast<double>(std::min(rows_, kFitRows));
    const auto inputs = static_cast<double>(model_.cell_and_target.in());
    return rows * 2 * inputs * static_cast<double>(model_.width) + model_.summarise.KvFlops(rows) +
           model_.summarise.AttendFlops(static_cast<double>(model_.inducing_points), rows);
  }

  void RunTask(int64_t task) override {
    const EncoderBlock& block = model_.summarise;
    const int64_t column = task / parts_;
    const int64_t first = task % parts_ * kFitRows;
    const int64_t rows = std::min(kFitRows, rows_ - first);
    CellScratch scratch;
    scratch.column.Reserve(kBlockCells * model_.width);
    AlignedBuffer memory(block.KvSize(rows));
    const KvView<float> kv = block.KvAt(memory.data(), rows);
    for (int64_t done = 0; done < rows; done += kBlockCells) {
      const int64_t n = std::min(kBlockCells, rows - done);
      model_.EmbedColumn(context_, column, first + done, n, y_.data() + first + done, scratch,
                         scratch.column.data());
      block.WriteKv(n, scratch.column.data(), done, kv, scratch.block);
    }
    block.AttendToPart(model_.inducing_points, model_.points.data(), kv, rows, states_[task],
                       scratch.block);
    if (--parts_left_[column] > 0) return;
    float* points = PointsOf(column);
    std::copy(model_.points.begin(), model_.points.end(), points);
    block.FinishParts(model_.inducing_points,
                      absl::MakeConstSpan(states_).subspan(column * parts_, parts_), points,
                      scratch.block);
  }

  std::shared_ptr<const RowEncoderState> Finish() override {
    return std::make_shared<ColumnStates>(model_, model_.mixer.Mix(std::move(points_)));
  }

 private:
  float* PointsOf(int64_t column) {
    return points_.data() + column * model_.inducing_points * model_.width;
  }

  const CellAttention& model_;
  const FeatureMatrix& context_;
  const absl::Span<const float> y_;
  const int64_t rows_;                            // of the fit
  const int64_t parts_;                           // of a column
  std::vector<float> points_;                     // [F, I, E]
  std::vector<EncoderBlock::Part> states_;        // [F, parts]
  std::vector<std::atomic<int64_t>> parts_left_;  // [F]
};

class CellAttentionEncoder : public RowEncoder {
 public:
  CellAttentionEncoder(const CellAttentionWeights& weights, const ModelConfig& config)
      : model_(weights, config) {}

  std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context,
                                        absl::Span<const float> y) const override {
    return std::make_unique<CellAttentionFit>(model_, context, y);
  }

  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const override {
    if (bytes.empty() || static_cast<int64_t>(bytes.size()) % ColumnStates::BytesOfColumn(model_)) {
      return absl::DataLossError("the row encoder's state is damaged");
    }
    return std::make_shared<const ColumnStates>(model_, bytes);
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out) const override {
    const auto& columns = static_cast<const ColumnStates&>(state);
    const int64_t block_rows = std::max<int64_t>(1, kBlockCells / features.features);
    CellScratch scratch;
    for (int64_t done = 0; done < rows; done += block_rows) {
      EncodeBlock(columns, features, first + done, std::min(block_rows, rows - done),
                  out + done * model_.out.out(), scratch);
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    const auto f = static_cast<double>(features);
    const auto tokens = static_cast<double>(model_.seed_tokens);
    double row = f * 2 * static_cast<double>(model_.cell.in() * model_.width) +
                 model_.read_column.AttendFlops(f, static_cast<double>(model_.inducing_points)) +
                 model_.pool.KvFlops(f) + model_.pool.AttendFlops(tokens, f) +
                 2 * static_cast<double>((model_.out.in() + model_.direct.in()) * model_.out.out());
    for (const EncoderBlock& layer : model_.row_layers) {
      row += layer.KvFlops(f) + layer.AttendFlops(f, f);
    }
    return static_cast<double>(rows) * row;
  }

 private:
  void EncodeBlock(const ColumnStates& columns, const FeatureMatrix& features, int64_t first,
                   int64_t rows, float* out, CellScratch& scratch) const {
    ReadColumns(columns, features, first, rows, scratch);
    float* cells = scratch.cells.data();
    for (const EncoderBlock& layer : model_.row_layers) {
      layer.AttendInSets(rows, features.features, cells, scratch.block);
    }
    const auto pooled_size = static_cast<int64_t>(model_.pooled.size());
    scratch.pooled.Reserve(rows * pooled_size);
    float* pooled = scratch.pooled.data();
    for (int64_t row = 0; row < rows; ++row) {
      std::copy(model_.pooled.begin(), model_.pooled.end(), pooled + row * pooled_size);
    }
    model_.pool.AttendToSets(rows, model_.seed_tokens, pooled, features.features, cells,
                             scratch.block);
    Normalize(model_.out_norm, model_.epsilon, rows * model_.seed_tokens, pooled, nullptr, pooled);
    model_.out.Apply(rows, pooled, pooled_size, out);
    scratch.direct.Reserve(rows * model_.direct.out());
    model_.direct.Apply(rows, scratch.gated.data(), model_.width, scratch.direct.data());
    Normalize(model_.norm, model_.epsilon, rows, out, scratch.direct.data(), out);
  }

  // Writes the cells, each after read_column, to scratch.cells, and their gated sum to
  // scratch.gated.
  void ReadColumns(const ColumnStates& columns, const FeatureMatrix& features, int64_t first,
                   int64_t rows, CellScratch& scratch) const {
    const int64_t width = model_.width;
    scratch.column.Reserve(rows * width);
    scratch.cells.Reserve(rows * features.features * width);
    scratch.gated.Reserve(rows * width);
    float* column = scratch.column.data();
    float* gated = scratch.gated.data();
    std::fill_n(gated, rows * width, 0.0f);
    for (int64_t f = 0; f < features.features; ++f) {
      model_.EmbedColumn(features, f, first, rows, nullptr, scratch, column);
      for (int64_t row = 0; row < rows; ++row) {
        AddProductTo(column + row * width, columns.Gate(model_, f), width, gated + row * width);
      }
      model_.read_column.Attend(rows, column, columns.Column(model_, f), model_.inducing_points,
                                scratch.block);
      for (int64_t row = 0; row < rows; ++row) {
        float* cell = scratch.cells.data() + (row * features.features + f) * width;
        std::copy_n(column + row * width, width, cell);
        AddTo(model_.column_id.data() + f * width, width, cell);
      }
    }
  }

  const CellAttention model_;
};

}  // namespace

std::unique_ptr<const RowEncoder> MakeCellAttentionEncoder(const CellAttentionWeights& weights,
                                                           const ModelConfig& config) {
  return std::make_unique<CellAttentionEncoder>(weights, config);
}

}  // namespace chorale
