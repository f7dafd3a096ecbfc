#include "engine/session/session.h"

#include <algorithm>
#include <utility>

#include "base/require.h"

namespace chorale {

void Session::SetContext(PreparedRequest prepared, ContextCache::Pin pin) {
  Require(state_ == State::kLookingUp, "a session is given its context once");
  context_ = std::move(prepared.context);
  features_ = std::move(prepared.targets);
  target_rows_ = features_.rows;
  pin_ = std::move(pin);
  found_resident_ = pin_.resident() != nullptr;
  state_ = State::kWaitingForContext;
}

void Session::CheckContext(absl::Time now) {
  if (state_ == State::kWaitingForContext && pin_.resident() != nullptr) {
    state_ = ContextIsEnough() ? State::kComplete : State::kWaitingForAdmission;
  }
  const bool clock_runs =
      state_ == State::kLookingUp || state_ == State::kWaitingForAdmission ||
      (state_ == State::kWaitingForContext && pin_.status().ok() && pin_.waits_for_room());
  if (clock_runs == queue_clock_runs_) return;
  if (queue_clock_runs_) queued_ += now - queue_clock_since_;
  queue_clock_since_ = now;
  queue_clock_runs_ = clock_runs;
}

absl::Duration Session::TimeQueued(absl::Time now) const {
  return queued_ + (queue_clock_runs_ ? now - queue_clock_since_ : absl::ZeroDuration());
}

void Session::Admit(std::vector<BufferPool::Lease> buffers, absl::Time now) {
  Require(state_ == State::kWaitingForAdmission, "a session is admitted once, after its context");
  // A context that was resident from the start explains none of the wait.
  queued_ = found_resident_ ? now - start_.arrival : TimeQueued(now);
  queue_clock_runs_ = false;
  admitted_at_ = now;
  buffers_ = std::move(buffers);
  PoolRange rows_range;
  if (const int64_t bytes = environment_->backend->RowsBytes(config(), target_rows_); bytes > 0) {
    rows_buffer_ = std::move(buffers_.back());
    buffers_.pop_back();
    rows_range = {rows_buffer_.range().offset, bytes};
  }
  rows_work_ = environment_->backend->NewRows(pin_.resident(), std::move(features_), rows_range);
  features_ = FeatureMatrix();
  state_ = State::kEncodingRows;
  environment_->metrics->QueueTime(queued_);
}

void Session::AppendRunnable(std::vector<Runnable>* runnable) {
  if (state_ == State::kEncodingRows) {
    runnable->push_back({rows_work_.get(), rows_work_->steps_at_this_cost()});
  } else if (state_ == State::kRunning) {
    AppendTiles(runnable);
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
  start_.control->ended = true;
  Deliver(std::move(status), now);
}

void Session::NoteFirstStep(absl::Time now) {
  if (!first_step_.has_value()) first_step_ = now;
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

}  // namespace chorale
