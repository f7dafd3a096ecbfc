#include "tests/engine/simulation/simulated_engine.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/context/registration.h"

namespace chorale::testing {
namespace {

ContextData DataOf(const RegisteredContext& context) {
  const std::vector<float> zeros(static_cast<size_t>(context.record.rows));
  return {FeatureMatrix{context.record.rows, 1, zeros}, zeros};
}

}  // namespace

SimulatedEngine::SimulatedEngine(VirtualClock* clock, const EngineOptions& options,
                                 const FakeBackendOptions& backend, const SimulatedDevice& device,
                                 SimulatedThreads threads, FakeBackendLog* log,
                                 MetricsSink* metrics)
    : clock_(clock),
      options_(options),
      backend_options_(backend),
      device_(device),
      threads_(std::move(threads)),
      log_(log),
      backend_(NewFakeBackend(backend, log)),
      inbox_(std::make_shared<Inbox>(clock)),
      environment_{backend_.get(),
                   metrics,
                   clock,
                   options.max_slices_per_tick,
                   options.max_unacknowledged_values,
                   [this](uint64_t session, std::shared_ptr<const CallControl> control,
                          std::function<SessionEnvironment::Continuation()> job) {
                     clock_->After(threads_.summary(), [this, session, control, job] {
                       if (control->ended || control->cancelled) return;
                       inbox_->Push(command::Continue{session, job()});
                     });
                   },
                   [this] { return loop_.MaySummariseAtOnce(); }},
      loop_(options, backend_.get(), metrics, inbox_,
            [this](ContextCache::ContextPointer context) { Read(context); }) {
  model_->weights = *backend_->AddModel(Model());
  log_->on_advance = [this](absl::Span<const Slice> slices) { PassTick(slices); };
}

SimulatedEngine::~SimulatedEngine() {
  log_->on_advance = nullptr;
  model_->weights.reset();
}

void SimulatedEngine::Drain(absl::Time deadline, Notification* done) {
  draining_ = true;
  inbox_->Push(command::Drain{deadline, done});
}

SimulatedEngine::Context SimulatedEngine::NewContext(const std::string& tenant, int64_t rows,
                                                     bool with_data) const {
  const Table features = QueryRows(rows);
  const Dataset dataset{features, "y", features.columns[0].numbers};
  Registration registration = PrepareRegistration(tenant, "context", *model_, dataset, limits_,
                                                  *backend_, backend_->context_pool_bytes())
                                  .value();
  auto context = std::make_shared<RegisteredContext>();
  context->record = std::move(registration.record);
  context->transform = std::move(registration.transform);
  context->model = model_;
  context->resident_bytes = backend_->ContextBytes(model_->info.config, rows);
  if (with_data) context->data = std::make_unique<ContextData>(DataOf(*context));
  return context;
}

Table SimulatedEngine::QueryRows(int64_t rows) {
  Column column;
  column.name = "x";
  for (int64_t i = 0; i < rows; ++i) column.numbers.push_back(static_cast<double>(i));
  return {{column}};
}

void SimulatedEngine::Replace(const Context& context) {
  context->replaced = true;
  context->deleted = true;
  inbox_->Push(command::PurgeDeleted());
}

void SimulatedEngine::Cancel(CallControl& control) {
  control.cancelled = true;
  inbox_->Poke();
}

void SimulatedEngine::Acknowledge(CallControl& control, int64_t values) {
  control.acknowledged += values;
  inbox_->Poke();
}

void SimulatedEngine::Enqueue(std::unique_ptr<Session> session,
                              std::shared_ptr<CallControl> control, Context context, bool in_memory,
                              std::shared_ptr<const Preparation> preparation) {
  if (draining_) {
    inbox_->Push(command::Refuse{std::move(session), DrainingError()});
    return;
  }
  if (!loop_.TryEnterQueue(*session, control)) {
    inbox_->Push(command::Refuse{
        std::move(session),
        ExhaustedRetryAfter(ErrorReason::kQueueFull, "the queue is full", options_.retry_delay)});
    return;
  }
  const uint64_t id = session->id();
  const auto prepare = [context, preparation]() -> absl::StatusOr<PreparedRequest> {
    // A request that looks its context up again finds none.
    if (context->gone()) return absl::NotFoundError("the context was deleted");
    return preparation->Prepare(context);
  };
  std::function<void()> look_up = [this, id, control, context, prepare] {
    clock_->After(threads_.look_up(), [this, id, control, context, prepare] {
      if (control->ended || control->cancelled) return;
      inbox_->Push(command::LookedUp{id, prepare(), context});
    });
  };
  if (in_memory) {
    inbox_->Push(command::Submit{std::move(session), prepare(), std::move(look_up)});
    return;
  }
  inbox_->Push(command::Submit{std::move(session), std::nullopt, look_up});
  look_up();
}

void SimulatedEngine::Read(const ContextCache::ContextPointer& context) {
  clock_->After(threads_.read(), [this, context] {
    const absl::Status outcome = threads_.read_outcome();
    if (!outcome.ok()) {
      inbox_->Push(command::DataRead{context, outcome});
      return;
    }
    inbox_->Push(command::DataRead{context, DataOf(*context)});
  });
}

void SimulatedEngine::PassTick(absl::Span<const Slice> slices) {
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
  if (on_tick_) on_tick_();
}

}  // namespace chorale::testing
