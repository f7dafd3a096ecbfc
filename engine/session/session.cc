#include "engine/session/session.h"

#include <algorithm>
#include <utility>

#include "base/require.h"

namespace chorale {

void Session::SetContext(PreparedRequest prepared, ContextCache::Pin pin) {
  Require(state_ == State::kLookingUp, "a session is given its context once");
  context_ = std::move(prepared.context);
  context_->AddCalls(1);
  features_ = std::move(prepared.query_rows);
  notes_ = std::move(prepared.notes);
  query_rows_ = features_.rows;
  pin_ = std::move(pin);
  found_resident_ = pin_.resident() != nullptr;
  state_ = State::kWaitingForContext;
  plan_ = MakePlan();
}

void Session::ForgetContext() {
  pin_.Reset();
  context_->AddCalls(-1);
  context_.reset();
  features_ = FeatureMatrix();
  notes_.clear();
  plan_ = TilePlan();
  query_rows_ = 0;
  state_ = State::kLookingUp;
}

void Session::CheckContext(absl::Time now) {
  if (state_ == State::kWaitingForContext && pin_.resident() != nullptr) {
    state_ = ContextIsEnough() ? State::kComplete : State::kWaitingForAdmission;
    context_ready_ = now;
  }
  const bool clock_runs =
      (state_ == State::kLookingUp && !encodes_anew()) || state_ == State::kWaitingForAdmission ||
      (state_ == State::kWaitingForContext && pin_.status().ok() && pin_.waits_for_room());
  if (clock_runs == queue_clock_runs_) return;
  if (queue_clock_runs_) queued_ += now - queue_clock_since_;
  if (state_ == State::kWaitingForContext && pin_.status().ok()) {
    context_began_ = now;
    restored_ = pin_.restoring();
  }
  queue_clock_since_ = now;
  queue_clock_runs_ = clock_runs;
}

absl::Duration Session::TimeQueued(absl::Time now) const {
  return queued_ + (queue_clock_runs_ ? now - queue_clock_since_ : absl::ZeroDuration());
}

void Session::Admit(std::vector<BufferPool::Lease> buffers, absl::Time now) {
  Require(state_ == State::kWaitingForAdmission, "a session is admitted once, after its context");
  // If the context was resident from the start, the whole wait counts as queued.
  queued_ = found_resident_ ? now - start_.arrival : TimeQueued(now);
  queue_clock_runs_ = false;
  admitted_at_ = now;
  buffers_ = std::move(buffers);
  PoolRange rows_range;
  if (const int64_t bytes = environment_->backend->RowsBytes(config(), query_rows_); bytes > 0) {
    rows_buffer_ = std::move(buffers_.back());
    buffers_.pop_back();
    rows_range = {rows_buffer_.range().offset, bytes};
  }
  rows_work_ = environment_->backend->NewRows(pin_.resident(), std::move(features_), rows_range);
  features_ = FeatureMatrix();
  state_ = State::kEncodingRows;
  environment_->metrics->QueueTime(queued_);
}

void Session::AppendSlices(std::vector<Slice>* slices) {
  if (state_ == State::kEncodingRows) {
    slices->push_back({rows_work_.get(), rows_work_->steps_at_this_cost()});
  } else if (state_ == State::kRunning) {
    AppendTiles(slices);
  }
}

void Session::Collect(absl::Time now) {
  if (state_ == State::kEncodingRows && rows_work_->done()) {
    rows_ = rows_work_->TakeRows();
    rows_work_.reset();
    state_ = State::kRunning;
    Start();
  } else if (state_ == State::kRunning) {
    CollectTiles(now);
  }
}

void Session::ReleaseResources() {
  rows_work_.reset();
  rows_.reset();
  rows_buffer_.Reset();
  buffers_.clear();
  pin_.Reset();
}

void Session::End(absl::Status status, absl::Time now) {
  if (context_ != nullptr) context_->AddCalls(-1);  // here: ReleaseResources may run several times
  start_.control->ended = true;
  if (start_.call.report) start_.call.report(ReportAt(now));
  Deliver(std::move(status), now);
}

void Session::NoteFirstStep(absl::Time now) {
  if (!first_step_.has_value()) first_step_ = now;
}

void Session::ReportValues(WorkKind kind, int64_t count) const {
  environment_->metrics->Values(kind, context_->record.tenant, context_->record.model, count);
}

Timings Session::TimingsAt(absl::Time now) const {
  Timings timings;
  timings.queued = TimeQueued(now);
  const absl::Time ready = std::min(admitted_at_, now);
  if (!found_resident_) timings.encoding = ready - start_.arrival - timings.queued;
  timings.first_step = first_step_.value_or(now) - start_.arrival;
  timings.total = now - start_.arrival;
  return timings;
}

CallReport Session::ReportAt(absl::Time now) const {
  using Context = CallReport::Context;
  CallReport report;
  if (context_ != nullptr) {
    report.model = context_->model->info.name;
    report.context_rows = context_->record.rows;
  }
  if (found_resident_) {
    report.context = Context::kResident;
  } else {
    if (context_began_.has_value()) {
      report.context = restored_ ? Context::kRestored : Context::kEncoded;
    }
    report.context_began = context_began_;
    report.context_ready = context_ready_;
  }
  report.arrival = start_.arrival;
  if (admitted_at_ <= now) report.admitted = admitted_at_;
  report.first_step = first_step_;
  report.end = now;
  const Timings timings = TimingsAt(now);
  report.queued = timings.queued;
  report.encoding = timings.encoding;
  return report;
}

}  // namespace chorale
