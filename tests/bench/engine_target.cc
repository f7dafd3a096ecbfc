#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/api/engine.h"
#include "server/app/build_engine.h"
#include "server/options/server_options.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/prometheus_metrics.h"
#include "tests/bench/bench_session.h"
#include "tests/bench/sampler.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

constexpr char kTenant[] = "bench";

std::string ContextName(int context) { return absl::StrCat("c", context); }

Table Features(int context, int64_t rows) {
  Table table;
  for (int column = 0; column + 1 < kLoadColumns; ++column) {
    Column& added = table.columns.emplace_back();
    added.name = LoadColumnName(column);
    added.numbers = LoadColumn(context, column, rows);
  }
  return table;
}

// Hands blocks from the engine's thread to the caller's.
class Mailbox : public SampleObserver {
 public:
  void OnBlock(SampleBlock block) override {
    absl::MutexLock lock(&mutex_);
    blocks_.push_back(std::move(block));
  }
  void OnDone(const absl::Status& status, const SampleSummary& summary) override {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    done_ = true;
  }

  // What has come since the last call, waiting for it no longer than a moment.
  std::vector<SampleBlock> Take(bool* done, absl::Status* status) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](Mailbox* box) { return box->done_ || !box->blocks_.empty(); }, this),
        absl::Milliseconds(20));
    *done = done_;
    *status = status_;
    return std::exchange(blocks_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<SampleBlock> blocks_;
  absl::Status status_;
  bool done_ = false;
};

class EngineSampler : public Sampler {
 public:
  EngineSampler(Engine* engine, int64_t query_rows)
      : engine_(engine), query_rows_(Features(-1, query_rows)) {}

  absl::Status Sample(int context, int64_t paths, uint64_t seed, const std::atomic<bool>& stop,
                      absl::FunctionRef<void(const DrawnBlock&)> on_block) override {
    SampleRequest request;
    request.context = ContextName(context);
    request.query_rows = query_rows_;
    request.paths = paths;
    request.seed = seed;
    const auto mailbox = std::make_shared<Mailbox>();
    const std::shared_ptr<Call> call =
        engine_->Sample({.tenant = kTenant}, std::move(request), mailbox);
    bool done = false;
    absl::Status status;
    while (!done) {
      for (const SampleBlock& block : mailbox->Take(&done, &status)) {
        call->Acknowledge(static_cast<int64_t>(block.values.size()));
        on_block({.first_path = block.first_path,
                  .paths = block.paths,
                  .first_step = block.first_step,
                  .steps = block.steps,
                  .values = block.values});
      }
      if (stop) call->Cancel();
    }
    return status;
  }

 private:
  Engine* const engine_;
  const Table query_rows_;
};

EngineSetup SetupOf(const LoadOptions& options, const std::string& folder) {
  EngineSetup setup;
  setup.models = {options.model};
  setup.data_dir = folder;
  setup.backend = end_to_end::TestBackend() == "cuda" ? BackendChoice::kCuda : BackendChoice::kCpu;
  setup.context_pool_bytes = options.context_pool_mib << 20;
  setup.buffer_pool_bytes = options.buffer_pool_mib << 20;
  return setup;
}

// As the server makes it.
class EngineTarget : public Target {
 public:
  explicit EngineTarget(const LoadOptions& options) : options_(options) {
    StartLogging(LogFormat::kText, spdlog::level::warn);
    absl::StatusOr<std::unique_ptr<Engine>> built =
        BuildEngine(SetupOf(options, folder_.path()), &metrics_);
    if (!built.ok()) Fail(built.status().ToString());
    engine_ = *std::move(built);
    for (int context = 0; context < options.contexts; ++context) Register(context);
  }

  std::string description() const override { return engine_->backend_description(); }
  std::unique_ptr<Sampler> NewSampler() override {
    return std::make_unique<EngineSampler>(engine_.get(), options_.query_rows);
  }

 private:
  void Register(int context) {
    const auto registered =
        engine_->Register(kTenant, ContextName(context), "",
                          {.features = Features(context, options_.rows),
                           .target = LoadColumnName(kLoadColumns - 1),
                           .y = LoadColumn(context, kLoadColumns - 1, options_.rows)});
    if (!registered.ok()) Fail(registered.status().ToString());
  }

  const LoadOptions options_;
  const TempFolder folder_;
  PrometheusMetrics metrics_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<Target> StartEngineTarget(const LoadOptions& options) {
  return std::make_unique<EngineTarget>(options);
}

}  // namespace chorale
