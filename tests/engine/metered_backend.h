// A backend before another one that measures what slices really cost.
#ifndef CHORALE_TESTS_ENGINE_METERED_BACKEND_H_
#define CHORALE_TESTS_ENGINE_METERED_BACKEND_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/backend/backend.h"

namespace chorale::testing {

struct MeteredSlice {
  double expected_flops = 0;  // what the scheduler took it for: steps times the first step's cost
  double flops = 0;
};

// Slices, in order. Thread-safe.
class SliceMeter {
 public:
  void Add(MeteredSlice slice) {
    MutexLock lock(&mutex_);
    slices_.push_back(slice);
  }
  std::vector<MeteredSlice> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(slices_, {});
  }

 private:
  Mutex mutex_;
  std::vector<MeteredSlice> slices_ ABSL_GUARDED_BY(mutex_);
};

// Thread contract: that of Backend.
class MeteredBackend : public Backend {
 public:
  // `meter` outlives the backend.
  MeteredBackend(std::unique_ptr<Backend> inner, SliceMeter* meter)
      : inner_(std::move(inner)), meter_(meter) {}

  BackendInfo info() const override { return inner_->info(); }
  std::string description() const override { return inner_->description(); }
  TickPolicy tick_policy() const override { return inner_->tick_policy(); }
  int64_t tile_paths() const override { return inner_->tile_paths(); }
  int64_t density_paths(const ModelConfig& config, int64_t positions) const override {
    return inner_->density_paths(config, positions);
  }
  int64_t context_pool_bytes() const override { return inner_->context_pool_bytes(); }
  int64_t buffer_pool_bytes() const override { return inner_->buffer_pool_bytes(); }
  int64_t encode_pool_bytes() const override { return inner_->encode_pool_bytes(); }
  int64_t host_context_pool_bytes() const override { return inner_->host_context_pool_bytes(); }
  std::string kv_format() const override { return inner_->kv_format(); }
  char* ContextMemory(const PoolRange& kv) override { return inner_->ContextMemory(kv); }
  char* HostContextMemory(const PoolRange& host) override {
    return inner_->HostContextMemory(host);
  }
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const override {
    return inner_->ReadEncoderState(model, bytes);
  }
  bool memory_sets() const override { return inner_->memory_sets(); }
  bool appends() const override { return inner_->appends(); }
  int64_t ContextBytes(const ModelConfig& config, const ContextShape& shape) const override {
    return inner_->ContextBytes(config, shape);
  }
  int64_t BufferBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return inner_->BufferBytes(config, positions, paths);
  }
  int64_t DensityBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return inner_->DensityBytes(config, positions, paths);
  }
  int64_t RowsBytes(const ModelConfig& config, int64_t query_rows) const override {
    return inner_->RowsBytes(config, query_rows);
  }
  int64_t PredictBytes(const ModelConfig& config, int64_t rows) const override {
    return inner_->PredictBytes(config, rows);
  }
  int64_t EncodeBytes(const ModelConfig& config, const ContextShape& shape) const override {
    return inner_->EncodeBytes(config, shape);
  }
  absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) override {
    return inner_->AddModel(model);
  }
  std::unique_ptr<EncodeWork> NewEncode(EncodeSpec spec) override {
    return inner_->NewEncode(std::move(spec));
  }
  std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                    FeatureMatrix features, PoolRange buffer) override {
    return inner_->NewRows(std::move(context), std::move(features), buffer);
  }
  std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec) override {
    return inner_->NewDecode(std::move(spec));
  }
  std::unique_ptr<DensityWork> NewDensity(DensitySpec spec) override {
    return inner_->NewDensity(std::move(spec));
  }
  std::unique_ptr<PredictWork> NewPredict(PredictSpec spec) override {
    return inner_->NewPredict(std::move(spec));
  }

  std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                       CopyDirection direction) override {
    return inner_->NewContextCopy(kv, host, direction);
  }

  // All work goes step by step, one piece after another, which changes no result.
  absl::Status CheckDevice() override { return inner_->CheckDevice(); }
  absl::Status Advance(absl::Span<const Slice> slices) override {
    for (const Slice& slice : slices) {
      MeteredSlice metered;
      metered.expected_flops = static_cast<double>(slice.max_steps) * slice.work->next_step_flops();
      for (int64_t i = 0; i < slice.max_steps && !slice.work->done(); ++i) {
        metered.flops += slice.work->next_step_flops();
        const Slice step = {slice.work, 1};
        const absl::Status status = inner_->Advance({&step, 1});
        if (!status.ok()) return status;
      }
      meter_->Add(metered);
    }
    return absl::OkStatus();
  }

  void ReleaseContext(PoolRange range) override { inner_->ReleaseContext(range); }
  void ReleaseBuffer(PoolRange range) override { inner_->ReleaseBuffer(range); }
  void ReleaseEncode(PoolRange range) override { inner_->ReleaseEncode(range); }

 private:
  const std::unique_ptr<Backend> inner_;
  SliceMeter* const meter_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_METERED_BACKEND_H_
