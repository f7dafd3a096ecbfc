#include "tests/engine/simulation/simulated_engine.h"

#include <algorithm>
#include <utility>

#include "base/require.h"
#include "base/status_macros.h"
#include "engine/context/encoded_contexts.h"
#include "engine/context/model_registry.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {

SimulatedEngine::SimulatedEngine(VirtualClock* clock, const EngineOptions& options,
                                 const FakeBackendOptions& backend, const SimulatedDevice& device,
                                 const SimulatedThreads& threads, FakeBackendLog* device_log,
                                 FakeStoreLog* store_log, MetricsSink* metrics)
    : clock_(clock), backend_options_(backend), device_(device), device_log_(device_log) {
  model_.name = "model";
  model_.digest = "digest of the model";
  model_.config = SmallConfig();
  const auto thread = [clock](const Delay& delay) {
    return std::make_unique<SimulatedThread>(clock, delay);
  };
  auto store = std::make_unique<FakeStore>(store_log);
  std::unique_ptr<ModelRegistry> models = ModelRegistry::Create({model_}).value();
  std::unique_ptr<EncodedContexts> files;
  if (options.max_context_file_bytes > 0) {
    files = EncodedContexts::Open(options.context_files_folder, options.max_context_file_bytes,
                                  "fake", store.get(), *models,
                                  {thread(threads.file_reader), thread(threads.file_writer)})
                .value();
  }
  auto loader = thread(threads.loader);
  loader_ = loader.get();
  engine_ = std::make_unique<EngineImpl>(
      options, NewFakeBackend(backend, device_log), std::move(store), std::move(models),
      std::move(files), metrics,
      EngineImpl::Queues{std::move(loader), thread(threads.parts), thread(threads.summary),
                         thread(threads.anew)});
  device_log_->on_advance = [this](absl::Span<const Slice> slices) { PassTick(slices); };
}

SimulatedEngine::~SimulatedEngine() { device_log_->on_advance = nullptr; }

void SimulatedEngine::Run() {
  engine_->Run({model_},
               [](const absl::Status& started) { Require(started.ok(), "the fake serves all"); });
}

Table SimulatedEngine::Rows(int64_t rows) {
  Column column;
  column.name = "x";
  for (int64_t i = 0; i < rows; ++i) column.numbers.push_back(static_cast<double>(i));
  return {{column}};
}

absl::StatusOr<std::string> SimulatedEngine::Register(const std::string& tenant,
                                                      const std::string& name,
                                                      const ContextShape& shape,
                                                      absl::Duration ttl) {
  Dataset dataset;
  dataset.features = Rows(shape.rows);
  dataset.target = "y";
  dataset.y = dataset.features.columns[0].numbers;
  dataset.memory = shape.memory;
  RegisterRequest request{.context = name, .model = ""};
  request.replace = true;
  if (ttl < absl::InfiniteDuration()) request.ttl = ttl;
  ASSIGN_OR_RETURN(const RegisterOutcome outcome,
                   engine_->Register(tenant, request, dataset, StoreQuota()));
  return outcome.context.record.digest;
}

absl::StatusOr<std::string> SimulatedEngine::Append(const std::string& tenant,
                                                    const std::string& name, int64_t rows) {
  Table table = Rows(rows);
  table.columns.push_back(table.columns[0]);
  table.columns[1].name = "y";
  ASSIGN_OR_RETURN(const AppendOutcome outcome,
                   engine_->Append(tenant, {.context = name}, table, StoreQuota()));
  return outcome.context.record.digest;
}

void SimulatedEngine::PassTick(absl::Span<const Slice> slices) {
  if (on_tick_) on_tick_();
  absl::Duration time = device_.tick_overhead;
  int64_t decodes = 0;
  int64_t decode_steps = 0;
  for (const Slice& slice : slices) {
    if (backend_options_.decodes_in_step && slice.work->kind() == WorkKind::kDecode) {
      ++decodes;
      decode_steps = std::max(decode_steps, slice.max_steps);
    } else {
      time += device_.step * slice.max_steps;
    }
  }
  if (decodes > 0) {
    time += (device_.step + device_.further_decode * (decodes - 1)) * decode_steps;
  }
  longest_tick_ = std::max(longest_tick_, time);
  clock_->Pass(time);
}

}  // namespace chorale::testing
