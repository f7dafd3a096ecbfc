// The row encoder "cell_attention" (engine/backends/cpu_cell_attention.cc) on the GPU.
//
// The GPU does what grows with the rows. The little that is made of each column in between (the
// points' own feed-forward layer, the columns' look at each other) is done by the host in float32.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backends/cpu_encoder_block.h"
#include "engine/backends/cuda/cuda_cell_model.h"
#include "engine/backends/cuda/cuda_row_encoder.h"
#include "kernels/cell_features.h"
#include "kernels/cuda/cell_columns.h"
#include "kernels/cuda/cell_pool.h"
#include "kernels/cuda/cell_rows.h"
#include "kernels/cuda/cell_summary.h"

namespace chorale {
namespace {

namespace cuda = kernels::cuda;

// Rows of one piece of a fit: enough to fill a GPU.
constexpr int64_t kFitRows = 4 * cuda::kSummaryRows;

// Bytes that go to the GPU in one copy. Offsets are multiples of kCudaAlignment.
class Parcel {
 public:
  // Returns the offset.
  template <typename T>
  int64_t Add(const T* values, int64_t n) {
    const auto offset = static_cast<int64_t>(bytes_.size());
    bytes_.resize(kernels::RoundUp(offset + n * static_cast<int64_t>(sizeof(T)), kAlignment));
    std::memcpy(bytes_.data() + offset, values, n * sizeof(T));
    return offset;
  }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  const char* data() const { return bytes_.data(); }

  // Of an array that is added.
  static int64_t Bytes(int64_t bytes) { return kernels::RoundUp(bytes, kAlignment); }

 private:
  static constexpr int64_t kAlignment = 256;
  std::vector<char> bytes_;
};

// Rows [first, first + rows) in a parcel that will lie at `memory`.
cuda::CellTable AddTable(const FeatureMatrix& features, const float* y, int64_t first, int64_t rows,
                         char* memory, Parcel& parcel) {
  const int64_t columns = features.features;
  const int64_t begin = first * columns;
  const std::vector<uint8_t> numeric(columns);
  cuda::CellTable table = {.rows = static_cast<int32_t>(rows),
                           .columns = static_cast<int32_t>(columns)};
  const auto at = [&](int64_t offset) { return reinterpret_cast<const uint8_t*>(memory + offset); };
  table.values = reinterpret_cast<const float*>(
      memory + parcel.Add(features.x.data() + begin, rows * columns));
  if (!features.missing.empty()) {
    table.missing = at(parcel.Add(features.missing.data() + begin, rows * columns));
  }
  table.categorical = at(parcel.Add(
      features.categorical.empty() ? numeric.data() : features.categorical.data(), columns));
  if (y != nullptr) {
    table.y = reinterpret_cast<const float*>(memory + parcel.Add(y + first, rows));
  }
  return table;
}

// At most, with y.
int64_t TableBytes(int64_t rows, int64_t columns) {
  return Parcel::Bytes(rows * columns * 4) + Parcel::Bytes(rows * columns) +
         Parcel::Bytes(columns) + Parcel::Bytes(rows * 4);
}

int64_t SummaryBytes(int64_t columns) { return columns * cuda::kSummarySize * 4; }
int64_t StateBytes(int64_t columns) {
  return Parcel::Bytes(columns * cuda::kTileKeysValues * 2) +
         Parcel::Bytes(columns * cuda::kCellWidth * 4);
}
// What the kernels leave of a row for each other.
int64_t RowBytes(int64_t columns) {
  return (cuda::CellTiles(columns) * cuda::kCellTile + cuda::kCellWidth) * 4;
}

// Rows that fit in so much memory, in whole tiles.
int64_t RowsInMemory(int64_t bytes, int64_t columns) {
  const int64_t of_row = RowBytes(columns) + columns * 5 + 4;
  const int64_t fixed = StateBytes(columns) + TableBytes(0, columns) + 4 * Parcel::Bytes(1);
  return (bytes - fixed) / of_row / cuda::kTileTokens * cuda::kTileTokens;
}

// A piece is kFitRows rows of all columns.
class CellFit : public CudaRowEncoderFit {
 public:
  CellFit(const CellModel& model, const FeatureMatrix& context, absl::Span<const float> y)
      : model_(model),
        context_(context),
        y_(y),
        summaries_(cuda::SummaryChunks(context.rows) * context.features * cuda::kSummarySize) {}

  int64_t pieces() const override { return kernels::CeilDiv(context_.rows, kFitRows); }

  double piece_flops() const override {
    const auto cells = static_cast<double>(std::min(kFitRows, context_.rows) * context_.features);
    const auto inputs = static_cast<double>(kernels::kCellFeatures + kernels::kNumberFeatures +
                                            2 * model_.width + 2 * model_.induced_points);
    return cells * 2 * inputs * static_cast<double>(model_.width);
  }

  void RunPiece(int64_t piece, const CudaEncoderRun& run) override {
    const int64_t columns = context_.features;
    const int64_t of_chunk = TableBytes(cuda::kSummaryRows, columns) + SummaryBytes(columns);
    const int64_t most = run.bytes / of_chunk * cuda::kSummaryRows;
    const int64_t end = std::min((piece + 1) * kFitRows, context_.rows);
    for (int64_t first = piece * kFitRows; first < end; first += most) {
      Summarise(first, std::min(most, end - first), run);
    }
  }

  std::shared_ptr<const RowEncoderState> Finish() override {
    const int64_t columns = context_.features;
    const int64_t tokens = columns * model_.induced_points;
    const std::vector<float> attended = Merge();
    std::vector<float> points;
    for (int64_t f = 0; f < columns; ++f) {
      points.insert(points.end(), model_.learnt_points.begin(), model_.learnt_points.end());
    }
    EncoderBlock::Scratch scratch;
    model_.finish_points.Finish(tokens, attended.data(), points.data(), scratch);
    return model_.MakeState(model_.mixer.Mix(std::move(points)));
  }

 private:
  void Summarise(int64_t first, int64_t rows, const CudaEncoderRun& run) {
    const int64_t columns = context_.features;
    Parcel parcel;
    cuda::SummariseColumnsParams params = {
        .table = AddTable(context_, y_.data(), first, rows, run.memory, parcel),
        .cell = model_.cell_and_target,
        .points = model_.points,
        .summarise = model_.summarise,
        .summaries = reinterpret_cast<float*>(run.memory + parcel.size()),
        .points_per_column = static_cast<int32_t>(model_.induced_points),
        .shape = model_.shape};
    assert(cuda::ValidateSummariseColumns(params).ok());
    run.device.Upload(run.memory, parcel.data(), parcel.size());
    if (!run.device.status().ok()) return;
    run.device.Check(cuda::LaunchSummariseColumns(params, run.device.stream()),
                     "summarising columns");
    run.device.Download(
        summaries_.data() + first / cuda::kSummaryRows * columns * cuda::kSummarySize,
        params.summaries, cuda::SummaryChunks(rows) * SummaryBytes(columns));
  }

  // What the points attended to, [F, I, E], from the states of the chunks in their order.
  std::vector<float> Merge() const {
    const int64_t columns = context_.features;
    std::vector<float> attended;
    for (int64_t f = 0; f < columns; ++f) {
      for (int64_t i = 0; i < model_.induced_points; ++i) {
        for (int64_t head = 0; head < model_.heads; ++head) MergeHead(f, i, head, attended);
      }
    }
    return attended;
  }

  void MergeHead(int64_t column, int64_t point, int64_t head, std::vector<float>& attended) const {
    const int64_t head_width = model_.width / model_.heads;
    const int64_t state = head * cuda::kTileTokens + point;
    const int64_t o_at = point * cuda::kCellWidth + head * cuda::kCellHeadWidth;
    const int64_t stride = context_.features * cuda::kSummarySize;
    const float* const first = summaries_.data() + column * cuda::kSummarySize;
    const float* const end = summaries_.data() + summaries_.size();
    float m = first[cuda::kSummaryM + state];
    for (const float* chunk = first; chunk < end; chunk += stride) {
      m = std::max(m, chunk[cuda::kSummaryM + state]);
    }
    double l = 0;
    double o[cuda::kCellHeadWidth] = {};
    for (const float* chunk = first; chunk < end; chunk += stride) {
      const double scale = std::exp2(static_cast<double>(chunk[cuda::kSummaryM + state]) - m);
      l += scale * chunk[cuda::kSummaryL + state];
      for (int64_t d = 0; d < head_width; ++d) o[d] += scale * chunk[o_at + d];
    }
    for (int64_t d = 0; d < head_width; ++d) attended.push_back(static_cast<float>(o[d] / l));
  }

  const CellModel& model_;
  const FeatureMatrix& context_;
  const absl::Span<const float> y_;
  std::vector<float> summaries_;  // [SummaryChunks(rows), F, kSummarySize]
};

class CudaCellAttentionEncoder : public CudaRowEncoder {
 public:
  CudaCellAttentionEncoder(const CellAttentionWeights& weights, const ModelConfig& config,
                           WeightBlob& blob)
      : model_(weights, config, blob) {}

  std::unique_ptr<CudaRowEncoderFit> NewFit(const FeatureMatrix& context,
                                            absl::Span<const float> y) const override {
    return std::make_unique<CellFit>(model_, context, y);
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out, const CudaEncoderRun& run) const override {
    const auto& columns = static_cast<const CellState&>(state);
    const int64_t most = RowsInMemory(run.bytes, features.features);
    for (int64_t done = 0; done < rows; done += most) {
      EncodePart(columns, features, first + done, std::min(most, rows - done),
                 out + done * model_.encoding, run);
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    const auto f = static_cast<double>(features);
    const auto e = static_cast<double>(model_.width);
    const auto tokens = static_cast<double>(model_.pooled_tokens);
    // Of a token in a block, without its keys and values; and those.
    const auto attend = [&](double keys) { return 12 * e * e + 4 * keys * e; };
    const double key_value = 4 * e * e;
    const double cell =
        2 * kernels::kCellFeatures * e + attend(static_cast<double>(model_.induced_points)) +
        static_cast<double>(model_.row_layers.size()) * (key_value + attend(f)) + key_value;
    const double end =
        tokens * attend(f) + 2 * (tokens + 1) * e * static_cast<double>(model_.encoding);
    return static_cast<double>(rows) * (f * cell + end);
  }

  int64_t memory_bytes() const override {
    const int64_t f = model_.max_features;
    const int64_t fit = TableBytes(cuda::kSummaryRows, f) + SummaryBytes(f);
    const int64_t encode =
        StateBytes(f) + TableBytes(cuda::kTileTokens, f) + cuda::kTileTokens * RowBytes(f) + 2048;
    return std::max(fit, encode);
  }

 private:
  void EncodePart(const CellState& state, const FeatureMatrix& features, int64_t first,
                  int64_t rows, float* out, const CudaEncoderRun& run) const {
    Parcel parcel;
    cuda::ReadColumnsParams read = {
        .table = AddTable(features, nullptr, first, rows, run.memory, parcel),
        .cell = model_.cell,
        .column_ids = model_.column_ids,
        .read_column = model_.read_column,
        .points_per_column = static_cast<int32_t>(model_.induced_points),
        .shape = model_.shape};
    const auto points = static_cast<int64_t>(state.points.size());
    const auto gates = static_cast<int64_t>(state.gates.size());
    read.points =
        reinterpret_cast<const uint16_t*>(run.memory + parcel.Add(state.points.data(), points));
    read.gates = reinterpret_cast<const float*>(run.memory + parcel.Add(state.gates.data(), gates));
    read.gated = reinterpret_cast<float*>(run.memory + parcel.size());
    read.cells = read.gated + rows * cuda::kCellWidth;
    assert(cuda::ValidateReadColumns(read).ok());
    run.device.Upload(run.memory, parcel.data(), parcel.size());
    if (!run.device.status().ok()) return;
    run.device.Check(cuda::LaunchReadColumns(read, run.device.stream()), "reading columns");
    for (const uint16_t* layer : model_.row_layers) {
      const cuda::MixRowsParams mix = {.cells = read.cells,
                                       .layer = layer,
                                       .rows = read.table.rows,
                                       .columns = read.table.columns,
                                       .shape = model_.shape};
      assert(cuda::ValidateMixRows(mix).ok());
      run.device.Check(cuda::LaunchMixRows(mix, run.device.stream()), "mixing the cells of rows");
    }
    Pool(read, out, run);
  }

  void Pool(const cuda::ReadColumnsParams& read, float* out, const CudaEncoderRun& run) const {
    const cuda::PoolCellsParams params = {.cells = read.cells,
                                          .gated = read.gated,
                                          .pooled = model_.pooled,
                                          .pool = model_.pool,
                                          .out_gamma = model_.out_gamma,
                                          .out_beta = model_.out_beta,
                                          .out = model_.out,
                                          .out_bias = model_.out_bias,
                                          .gamma = model_.gamma,
                                          .beta = model_.beta,
                                          .encodings = out,
                                          .rows = read.table.rows,
                                          .columns = read.table.columns,
                                          .tokens = static_cast<int32_t>(model_.pooled_tokens),
                                          .width = static_cast<int32_t>(model_.encoding),
                                          .shape = model_.shape};
    assert(cuda::ValidatePoolCells(params).ok());
    run.device.Check(cuda::LaunchPoolCells(params, run.device.stream()), "pooling cells");
  }

  CellModel model_;  // its pointers are set when the weights are on the GPU
};

}  // namespace

absl::StatusOr<std::unique_ptr<const CudaRowEncoder>> MakeCudaCellAttentionEncoder(
    const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob) {
  if (absl::Status s = CheckCellConfig(config); !s.ok()) return s;
  return std::make_unique<CudaCellAttentionEncoder>(weights, config, blob);
}

}  // namespace chorale
