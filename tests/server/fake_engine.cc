#include "tests/server/fake_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error_details.h"

namespace chorale {
FakeCall::~FakeCall() {
  if (!canceller_.joinable()) return;
  // The last reference may be the canceller's own.
  if (canceller_.get_id() == std::this_thread::get_id()) {
    canceller_.detach();
  } else {
    canceller_.join();
  }
}

void FakeCall::Cancel() {
  if (cancels_++ > 0 || ended_) return;
  canceller_ = std::thread([self = shared_from_this()]() mutable {
    self->End(absl::CancelledError("cancelled"));
    self.reset();
  });
}

void FakeCall::End(const absl::Status& status) {
  if (ended_.exchange(true)) return;
  const auto end = std::exchange(end_, nullptr);
  end(status);
}

bool FakeCall::MarkEnded() {
  if (ended_.exchange(true)) return false;
  end_ = nullptr;
  return true;
}

SampleBlock MakeBlock(int64_t first_path, int64_t paths, int64_t first_step, int64_t steps) {
  SampleBlock block;
  block.first_path = first_path;
  block.paths = paths;
  block.first_step = first_step;
  block.steps = steps;
  for (int64_t path = 0; path < paths; ++path) {
    for (int64_t step = 0; step < steps; ++step) {
      block.values.push_back(static_cast<double>((first_path + path) * 1000 + first_step + step));
    }
  }
  return block;
}

void FakeSample::Draw(int64_t first_path, int64_t paths, int64_t first_step, int64_t steps) const {
  observer->OnBlock(MakeBlock(first_path, paths, first_step, steps));
}

std::shared_ptr<FakeSample> FakeEngine::NextSample(absl::Duration patience) {
  const absl::Time deadline = Clock::Real()->Now() + patience;
  MutexLock lock(&mutex_);
  while (samples_.empty()) {
    if (Clock::Real()->Now() >= deadline) return nullptr;
    Clock::Real()->WaitUntil(deadline, &changed_, &mutex_);
  }
  std::shared_ptr<FakeSample> sample = samples_.front();
  samples_.pop_front();
  return sample;
}

bool FakeEngine::WaitForBegun(int64_t count) {
  const absl::Time deadline = Clock::Real()->Now() + kPatience;
  MutexLock lock(&mutex_);
  while (begun_ < count) {
    if (Clock::Real()->Now() >= deadline) return false;
    Clock::Real()->WaitUntil(deadline, &changed_, &mutex_);
  }
  return true;
}

absl::StatusOr<ModelOutcome> FakeEngine::AddModel(const Model& model) {
  if (model.name == "too-large") return absl::ResourceExhaustedError("no memory is left");
  const bool wide = model.name == "wide";
  if (wide && !has_library) {
    return ModelOutcome{ModelOutcome::Kind::kSkipped, "Install the library."};
  }
  MutexLock lock(&mutex_);
  for (const ModelInfo& info : models) {
    if (info.name == model.name) return absl::AlreadyExistsError(model.name);
  }
  models.push_back({model.name, model.config, model.digest, model.parameters});
  if (wide) models.back().form = "wide";
  return ModelOutcome();
}

absl::Status FakeEngine::RemoveModel(const std::string& name) {
  MutexLock lock(&mutex_);
  if (models.size() == 1) return absl::FailedPreconditionError("the only model");
  const auto removed =
      std::erase_if(models, [&](const ModelInfo& info) { return info.name == name; });
  return removed == 1 ? absl::OkStatus() : absl::NotFoundError(name);
}

absl::Status FakeEngine::SetDefaultModel(const std::string& name) {
  MutexLock lock(&mutex_);
  const auto place = std::find_if(models.begin(), models.end(),
                                  [&](const ModelInfo& info) { return info.name == name; });
  if (place == models.end()) return absl::NotFoundError(name);
  std::rotate(models.begin(), place, place + 1);
  return absl::OkStatus();
}

absl::StatusOr<RegisterOutcome> FakeEngine::Register(const std::string& /*tenant*/,
                                                     const RegisterRequest& request,
                                                     const Dataset& dataset,
                                                     const StoreQuota& /*quota*/) {
  if (!on_register) return absl::UnimplementedError("Register");
  return on_register(request, dataset);
}

absl::StatusOr<AppendOutcome> FakeEngine::Append(const std::string& /*tenant*/,
                                                 const AppendRequest& request, const Table& rows,
                                                 const StoreQuota& /*quota*/) {
  if (!on_append) return absl::UnimplementedError("Append");
  return on_append(request, rows);
}

absl::StatusOr<ContextInfo> FakeEngine::GetContext(const std::string& /*tenant*/,
                                                   const std::string& name) {
  if (!on_get) return absl::UnimplementedError("GetContext");
  return on_get(name);
}

absl::StatusOr<ContextInfoPage> FakeEngine::ListContexts(const std::string& /*tenant*/,
                                                         const ContextQuery& query,
                                                         PageLimits limits,
                                                         const std::string& page_token) {
  if (!on_list) return absl::UnimplementedError("ListContexts");
  return on_list(query, limits, page_token);
}

absl::Status FakeEngine::DeleteContext(const std::string& /*tenant*/, const std::string& name,
                                       const DeleteTerms& terms) {
  if (!on_delete) return absl::UnimplementedError("DeleteContext");
  return on_delete(name, terms);
}

std::function<void()> FakeEngine::Report(CallContext call) {
  CallReporter reporter = std::exchange(call.report, nullptr);
  {
    MutexLock lock(&mutex_);
    last_call_ = std::move(call);
  }
  return [reporter = std::move(reporter), report = report, clock = clock,
          arrival = clock->Now()]() mutable {
    if (!reporter) return;
    report.arrival = arrival;
    report.end = clock->Now();
    reporter(report);
  };
}

template <typename Result>
std::shared_ptr<Call> FakeEngine::Begin(CallContext context, Callback<Result> done,
                                        const absl::StatusOr<Result>* answer) {
  auto report = Report(std::move(context));
  auto call = std::make_shared<FakeCall>([this, done, report](const absl::Status& status) mutable {
    report();
    done(status);
    Ended();
  });
  Began(call);
  if (answer != nullptr && call->MarkEnded()) {
    report();
    done(*answer);
    Ended();
  }
  return call;
}

std::shared_ptr<Call> FakeEngine::Warm(CallContext call, WarmRequest request,
                                       Callback<ContextInfo> done) {
  if (request.residency == Residency::kPinned) {
    MutexLock lock(&mutex_);
    pinned_.push_back(request.context);
  }
  if (request.encode_anew) ++encodings_anew;
  if (!on_warm) return Begin<ContextInfo>(std::move(call), std::move(done), nullptr);
  const absl::StatusOr<ContextInfo> answer = on_warm(request.context);
  return Begin<ContextInfo>(std::move(call), std::move(done), &answer);
}

std::vector<std::string> FakeEngine::pinned() {
  MutexLock lock(&mutex_);
  return pinned_;
}

CallContext FakeEngine::last_call() {
  MutexLock lock(&mutex_);
  return last_call_;
}

absl::StatusOr<std::vector<ContextSize>> FakeEngine::NewestContexts(int64_t limit) {
  if (!on_newest) return std::vector<ContextSize>();
  return on_newest(limit);
}

std::shared_ptr<Call> FakeEngine::Predict(CallContext call, PredictRequest request,
                                          Callback<PredictResult> done) {
  if (!on_predict) return Begin<PredictResult>(std::move(call), std::move(done), nullptr);
  const absl::StatusOr<PredictResult> answer = on_predict(request);
  return Begin<PredictResult>(std::move(call), std::move(done), &answer);
}

std::shared_ptr<Call> FakeEngine::Summarize(CallContext call, SummarizeRequest request,
                                            Callback<SummarizeResult> done) {
  if (!on_summarize) return Begin<SummarizeResult>(std::move(call), std::move(done), nullptr);
  const absl::StatusOr<SummarizeResult> answer = on_summarize(request);
  return Begin<SummarizeResult>(std::move(call), std::move(done), &answer);
}

std::shared_ptr<Call> FakeEngine::LogDensity(CallContext call, LogDensityRequest request,
                                             Callback<LogDensityResult> done) {
  if (!on_log_density) return Begin<LogDensityResult>(std::move(call), std::move(done), nullptr);
  const absl::StatusOr<LogDensityResult> answer = on_log_density(request);
  return Begin<LogDensityResult>(std::move(call), std::move(done), &answer);
}

std::shared_ptr<Call> FakeEngine::Sample(CallContext call, SampleRequest request,
                                         std::shared_ptr<SampleObserver> observer) {
  auto sample = std::make_shared<FakeSample>();
  sample->request = std::move(request);
  sample->observer = observer;
  sample->summary.seed = sample->request.seed.value_or(0);
  sample->call = std::make_shared<FakeCall>(
      [this, observer, report = Report(std::move(call)),
       weak = std::weak_ptr<FakeSample>(sample)](const absl::Status& status) mutable {
        const std::shared_ptr<FakeSample> strong = weak.lock();
        report();
        observer->OnDone(status, strong ? strong->summary : SampleSummary());
        Ended();
      });
  Began(sample->call);
  {
    MutexLock lock(&mutex_);
    samples_.push_back(sample);
  }
  changed_.NotifyAll();
  return sample->call;
}

void FakeEngine::Began(const std::shared_ptr<FakeCall>& call) {
  {
    MutexLock lock(&mutex_);
    calls_.push_back(call);
    ++begun_;
    ++in_flight_;
  }
  changed_.NotifyAll();
}

void FakeEngine::Ended() {
  // Under the lock: a Drain that hears of it may be followed by the engine's end.
  MutexLock lock(&mutex_);
  --in_flight_;
  changed_.NotifyAll();
}

void FakeEngine::Drain(absl::Time deadline) {
  std::vector<std::weak_ptr<FakeCall>> calls;
  {
    MutexLock lock(&mutex_);
    while (in_flight_ > 0 && clock->Now() < deadline) {
      clock->WaitUntil(deadline, &changed_, &mutex_);
    }
    calls = calls_;
  }
  for (const std::weak_ptr<FakeCall>& weak : calls) {
    if (const std::shared_ptr<FakeCall> call = weak.lock()) call->End(CutShortByShutdown());
  }
  MutexLock lock(&mutex_);
  while (in_flight_ > 0) changed_.Wait(&mutex_);
}

}  // namespace chorale
