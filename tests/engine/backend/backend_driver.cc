#include "tests/engine/backend/backend_driver.h"

#include <cstdio>
#include <numeric>
#include <utility>

#include "base/require.h"
#include "engine/backend/cpu/backend.h"

namespace chorale {

BackendDriver BackendDriver::Cpu(int threads) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = cpu::NewBackend(
      {.threads = threads, .context_pool_bytes = 256 << 20, .buffer_pool_bytes = 256 << 20});
  Require(backend.ok(), "the CPU backend can be made");
  return BackendDriver(*std::move(backend));
}

std::shared_ptr<const BackendModel> BackendDriver::AddModel(const Model& model) {
  absl::StatusOr<std::shared_ptr<const BackendModel>> added = backend_->AddModel(model);
  if (!added.ok()) std::fprintf(stderr, "%s\n", added.status().ToString().c_str());
  Require(added.ok(), "the model can be added");
  return *std::move(added);
}

PoolRange BackendDriver::TakeContextRange(const ModelConfig& config, const ContextShape& shape) {
  const PoolRange range = {.offset = context_bytes_,
                           .bytes = backend_->ContextBytes(config, shape)};
  context_bytes_ += range.bytes;
  Require(context_bytes_ <= backend_->context_pool_bytes(), "the context pool is large enough");
  return range;
}

PoolRange BackendDriver::TakeBufferRange(int64_t bytes) {
  const PoolRange range = {.offset = buffer_bytes_, .bytes = bytes};
  buffer_bytes_ += range.bytes;
  Require(buffer_bytes_ <= backend_->buffer_pool_bytes(), "the buffer pool is large enough");
  return range;
}

std::unique_ptr<EncodeWork> BackendDriver::NewEncode(std::shared_ptr<const BackendModel> model,
                                                     const FeatureMatrix& features,
                                                     const std::vector<float>& y,
                                                     const MemorySet& memory, uint64_t seed) {
  return NewEncode(
      {.model = std::move(model), .features = features, .y = y, .memory = memory, .seed = seed});
}

std::unique_ptr<EncodeWork> BackendDriver::NewEncode(EncodeSpec spec) {
  const ModelConfig& config = spec.model->config();
  spec.kv = TakeContextRange(config, spec.shape());
  spec.workspace = {.offset = encode_bytes_, .bytes = backend_->EncodeBytes(config, spec.shape())};
  encode_bytes_ += spec.workspace.bytes;
  Require(encode_bytes_ <= backend_->encode_pool_bytes(), "the encode pool is large enough");
  return backend_->NewEncode(std::move(spec));
}

std::unique_ptr<RowsWork> BackendDriver::NewRows(std::shared_ptr<const ResidentContext> context,
                                                 const FeatureMatrix& features) {
  const PoolRange buffer =
      TakeBufferRange(backend_->RowsBytes(context->model->config(), features.rows));
  return backend_->NewRows(std::move(context), features, buffer);
}

std::unique_ptr<PredictWork> BackendDriver::NewPredict(
    std::shared_ptr<const ResidentContext> context, std::shared_ptr<const EncodedRows> query_rows,
    int64_t first_row, int64_t rows) {
  PredictSpec spec;
  spec.buffer = TakeBufferRange(backend_->PredictBytes(context->model->config(), rows));
  spec.context = std::move(context);
  spec.query_rows = std::move(query_rows);
  spec.first_row = first_row;
  spec.rows = rows;
  return backend_->NewPredict(std::move(spec));
}

std::shared_ptr<const ResidentContext> BackendDriver::Encode(
    std::shared_ptr<const BackendModel> model, const FeatureMatrix& features,
    const std::vector<float>& y, int64_t steps_per_slice, const MemorySet& memory, uint64_t seed) {
  return Encode(
      {.model = std::move(model), .features = features, .y = y, .memory = memory, .seed = seed},
      steps_per_slice);
}

std::shared_ptr<const ResidentContext> BackendDriver::Encode(EncodeSpec spec,
                                                             int64_t steps_per_slice) {
  const std::unique_ptr<EncodeWork> work = NewEncode(std::move(spec));
  Run(work.get(), steps_per_slice);
  return std::make_shared<const ResidentContext>(work->TakeContext());
}

std::shared_ptr<const EncodedRows> BackendDriver::EncodeRows(
    std::shared_ptr<const ResidentContext> context, const FeatureMatrix& features) {
  const std::unique_ptr<RowsWork> work = NewRows(std::move(context), features);
  Run(work.get());
  return work->TakeRows();
}

std::unique_ptr<DecodeWork> BackendDriver::NewDecode(DecodeSpec spec) {
  spec.buffer = TakeBufferRange(backend_->BufferBytes(spec.tile.context->model->config(),
                                                      spec.tile.positions(), spec.tile.paths));
  return backend_->NewDecode(std::move(spec));
}

std::unique_ptr<DecodeWork> BackendDriver::NewDecode(TileSpec tile, uint64_t seed,
                                                     int64_t first_path,
                                                     std::vector<float> forced_values) {
  DecodeSpec spec;
  spec.path_numbers.resize(tile.paths);
  std::iota(spec.path_numbers.begin(), spec.path_numbers.end(), first_path);
  spec.tile = std::move(tile);
  spec.seed = seed;
  spec.forced_values = std::move(forced_values);
  return NewDecode(std::move(spec));
}

std::unique_ptr<DensityWork> BackendDriver::NewDensity(TileSpec tile, std::vector<float> values) {
  DensitySpec spec;
  spec.buffer = TakeBufferRange(
      backend_->DensityBytes(tile.context->model->config(), tile.positions(), tile.paths));
  spec.tile = std::move(tile);
  spec.values = std::move(values);
  return backend_->NewDensity(std::move(spec));
}

void BackendDriver::RunAll(absl::Span<Work* const> works, int64_t steps_per_slice) {
  for (;;) {
    std::vector<Slice> slices;
    for (Work* work : works) {
      if (work->done()) continue;
      Require(work->next_step_flops() > 0, "work that is not done has a cost");
      slices.push_back({.work = work, .max_steps = steps_per_slice});
    }
    if (slices.empty()) return;
    Require(backend_->Advance(slices).ok(), "the device works");
  }
}

}  // namespace chorale
