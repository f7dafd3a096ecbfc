#include "engine/backend/cpu/backend.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/cpu/decode.h"
#include "engine/backend/cpu/density.h"
#include "engine/backend/cpu/encode.h"
#include "engine/backend/cpu/memory_encode.h"
#include "engine/backend/cpu/memory_pool.h"
#include "engine/backend/cpu/model.h"
#include "engine/backend/cpu/predict.h"
#include "engine/backend/cpu/scratch.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/cpu/work.h"
#include "kernels/cpu/target.h"

namespace chorale::cpu {
namespace {

// Thread contract: see Backend.
class Backend : public chorale::Backend {
 public:
  Backend(std::unique_ptr<MemoryPool> context_pool, std::unique_ptr<MemoryPool> buffer_pool,
          std::unique_ptr<ThreadPool> threads)
      : context_pool_(std::move(context_pool)),
        buffer_pool_(std::move(buffer_pool)),
        scratch_(threads->threads()),
        threads_(std::move(threads)) {}

  BackendInfo info() const override {
    return {"cpu", kernels::SimdTargetName(), threads_->threads()};
  }
  std::string description() const override {
    return absl::StrCat("cpu ", kernels::SimdTargetName(), ", ", threads_->threads(),
                        threads_->threads() == 1 ? " thread" : " threads");
  }
  // Two slices per thread, so that no thread is idle when a slice ends early.
  TickPolicy tick_policy() const override {
    return {.max_slices = std::max<int64_t>(4, 2 * static_cast<int64_t>(threads_->threads()))};
  }
  int64_t tile_paths() const override { return kTilePaths; }
  int64_t context_pool_bytes() const override { return context_pool_->bytes(); }
  int64_t buffer_pool_bytes() const override { return buffer_pool_->bytes(); }

  // Instruction sets differ in the order of sums, and builds may differ in kernels or layouts.
  std::string kv_format() const override {
    return absl::StrCat("cpu float32 ", kernels::SimdTargetName(), ", ", CHORALE_BUILD_VERSION);
  }
  char* ContextMemory(const PoolRange& kv) override {
    return reinterpret_cast<char*>(context_pool_->At(kv));
  }
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const override {
    return dynamic_cast<const PackedModel&>(model).row_encoder().ReadState(bytes);
  }

  bool memory_sets() const override { return true; }
  bool appends() const override { return true; }
  int64_t ContextBytes(const ModelConfig& config, const ContextShape& shape) const override {
    return ContextLayout(config, shape).bytes();
  }
  int64_t BufferBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return DecodeBufferBytes(config, positions, paths);
  }
  int64_t DensityBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return DensityBufferBytes(config, positions, paths);
  }

  absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) override {
    for (Scratch& scratch : scratch_) scratch.Reserve(model.config);
    return std::make_shared<const PackedModel>(model);
  }

  std::unique_ptr<chorale::EncodeWork> NewEncode(EncodeSpec spec) override {
    float* pool = context_pool_->At(spec.kv);
    const float* prefix = spec.prefix == nullptr ? nullptr : context_pool_->At(spec.prefix->kv);
    if (spec.shape().reduced()) {
      return std::make_unique<MemoryEncodeWork>(std::move(spec), pool, threads_->threads(), prefix);
    }
    return std::make_unique<EncodeWork>(std::move(spec), pool, threads_->threads(), prefix);
  }
  std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                    FeatureMatrix features, PoolRange buffer) override {
    return std::make_unique<EncodeQueryRowsWork>(std::move(context), std::move(features));
  }
  std::unique_ptr<chorale::DecodeWork> NewDecode(DecodeSpec spec) override {
    const float* context = context_pool_->At(spec.tile.context->kv);
    float* buffer = buffer_pool_->At(spec.buffer);
    return std::make_unique<DecodeWork>(std::move(spec), context, buffer);
  }
  std::unique_ptr<chorale::DensityWork> NewDensity(DensitySpec spec) override {
    const float* context = context_pool_->At(spec.tile.context->kv);
    float* buffer = buffer_pool_->At(spec.buffer);
    return std::make_unique<DensityWork>(std::move(spec), context, buffer);
  }
  std::unique_ptr<chorale::PredictWork> NewPredict(PredictSpec spec) override {
    const float* context = context_pool_->At(spec.context->kv);
    return std::make_unique<PredictWork>(std::move(spec), context);
  }

  absl::Status Advance(absl::Span<const Slice> slices) override;

  void ReleaseContext(PoolRange range) override { context_pool_->Clear(range); }
  void ReleaseBuffer(PoolRange range) override { buffer_pool_->Clear(range); }

 private:
  struct Running {
    BatchedWork* work = nullptr;
    int64_t steps_left = 0;
  };
  struct Task {
    BatchedWork* work = nullptr;
    int64_t index = 0;
  };

  // Removes work that has taken its steps, and plans a batch of the remaining work.
  void PlanBatch();

  const std::unique_ptr<MemoryPool> context_pool_;
  const std::unique_ptr<MemoryPool> buffer_pool_;
  std::vector<Scratch> scratch_;  // one per thread
  // State of the current Advance; members only to reuse their capacity.
  std::vector<Running> running_;
  std::vector<Task> tasks_;
  const std::unique_ptr<ThreadPool> threads_;  // last, so that its threads end first
};

absl::Status Backend::Advance(absl::Span<const Slice> slices) {
  running_.clear();
  for (const Slice& slice : slices) {
    auto* work = dynamic_cast<BatchedWork*>(slice.work);
    Require(work != nullptr, "the work belongs to the CPU backend");
    Require(slice.max_steps >= 1, "a slice has at least one step");
    running_.push_back({work, slice.max_steps});
  }
  for (;;) {
    PlanBatch();
    if (tasks_.empty()) return absl::OkStatus();
    threads_->Run(static_cast<int64_t>(tasks_.size()), [this](int64_t task, int thread) {
      tasks_[task].work->RunTask(tasks_[task].index, scratch_[thread]);
    });
    for (Running& running : running_) running.steps_left -= running.work->EndBatch();
  }
}

void Backend::PlanBatch() {
  std::erase_if(running_, [](const Running& running) {
    return running.steps_left <= 0 || running.work->done();
  });
  tasks_.clear();
  if (running_.empty()) return;
  const int works = static_cast<int>(running_.size());
  const int parallelism = (threads_->threads() + works - 1) / works;
  for (Running& running : running_) {
    const int64_t tasks = running.work->BeginBatch(running.steps_left, parallelism);
    for (int64_t i = 0; i < tasks; ++i) tasks_.push_back({running.work, i});
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<chorale::Backend>> NewBackend(const BackendOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: ", options.threads, " is outside [0, ", kMaxThreads, "]"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<MemoryPool> context_pool,
                   MemoryPool::Create("context_pool_bytes", options.context_pool_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<MemoryPool> buffer_pool,
                   MemoryPool::Create("buffer_pool_bytes", options.buffer_pool_bytes));
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = options.threads > 0 ? options.threads : std::min(processors, kMaxThreads);
  ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(threads));
  return std::make_unique<Backend>(std::move(context_pool), std::move(buffer_pool),
                                   std::move(pool));
}

}  // namespace chorale::cpu
