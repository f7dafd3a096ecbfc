// Handles the commands of other threads to the engine thread.
#include <iterator>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/scheduling/engine_loop.h"
#include "spdlog/spdlog.h"

namespace chorale {

void EngineLoop::Handle(command::Submit& submit) {
  sessions_.push_back({.session = std::move(submit.session),
                       .requested = {},
                       .look_up = std::move(submit.look_up)});
  const auto active = std::prev(sessions_.end());
  by_id_[active->session->id()] = active;
  if (!failure_.ok()) {
    metrics_->Rejected("backend_failed");
    Finish(active, failure_);
  } else if (draining_) {
    metrics_->Rejected("draining");
    Finish(active, DrainingError());
  } else if (submit.prepared.has_value()) {
    AttachContext(active, *std::move(submit.prepared));
  }
}

void EngineLoop::Handle(command::Refuse& refuse) {
  refuse.session->End(std::move(refuse.status), options_.clock->Now());
}

void EngineLoop::Handle(command::LookedUp& looked_up) {
  const auto found = by_id_.find(looked_up.session);
  if (found != by_id_.end()) {
    AttachContext(found->second, std::move(looked_up.prepared));
  } else if (looked_up.context != nullptr && looked_up.context->data != nullptr && failure_.ok() &&
             !stopping_) {
    // No request waits any longer, but the data speeds up the next request.
    cache_.Acquire(looked_up.context, options_.clock->Now()).IgnoreError();
  }
}

void EngineLoop::Handle(command::DataRead& read) {
  if (failure_.ok() && !stopping_) cache_.OnData(read.context, std::move(read.data));
}

void EngineLoop::Handle(command::FileRead& read) {
  if (!files_stopped_) {
    cache_.OnFileRead(read.context, std::move(read.encoder_state), options_.clock->Now());
  }
}

void EngineLoop::Handle(command::FileWritten& written) {
  if (!files_stopped_) cache_.OnFileWritten();
}

void EngineLoop::Handle(command::Continue& continued) {
  if (by_id_.contains(continued.session)) continued.continuation();
}

void EngineLoop::PurgeDeleted() {
  std::erase_if(successors_, [](const ContextCache::Pin& pin) { return pin.purgeable(); });
  cache_.PurgeDeleted();
  PublishStats();
}

void EngineLoop::Handle(command::PurgeDeleted& purge) { PurgeDeleted(); }

void EngineLoop::Handle(command::Succeed& succeed) {
  if (failure_.ok() && !stopping_) {
    ContextCache::Pin pin = cache_.AcquireSuccessor(succeed.context, options_.clock->Now());
    if (pin) {
      successors_.push_back(std::move(pin));
      succeed.acquired();
    }
  }
  // If rows were appended to the context meanwhile, the predecessors stay for the next command.
  if (!succeed.context->awaits_successor) {
    for (const auto& predecessor : succeed.context->predecessors) {
      if (const auto before = predecessor.lock()) before->awaits_successor = false;
    }
  }
  PurgeDeleted();
}

void EngineLoop::Handle(command::EncodedAnew& encoded) {
  cache_.OnRegistered(*encoded.context, encoded.stays);
  PurgeDeleted();
}

void EngineLoop::Handle(command::LimitPools& limit) {
  cache_.LimitPool(limit.context);
  buffers_.SetLimit(limit.buffer);
  PublishStats();
}

void EngineLoop::Handle(command::AddModel& add) {
  if (failure_.ok()) {
    *add.outcome = add.served->AddTo(backend_, *add.model);
  } else {
    *add.outcome = failure_;
  }
  add.done->Notify();
}

void EngineLoop::Handle(command::RetireModel& retire) {
  retired_.push_back(std::move(retire.model));
  PurgeDeleted();
}

void EngineLoop::FreeRetiredModels() {
  std::erase_if(retired_, [this](const std::shared_ptr<ServedModel>& model) {
    if (cache_.Uses(*model)) return false;
    backend_->RemoveModel(*model->weights);
    model->weights.reset();
    spdlog::info("the weights of the removed model '{}' were freed", model->info.name);
    return true;
  });
}

void EngineLoop::Handle(command::Drain& drain) {
  draining_ = true;
  drains_.push_back({drain.deadline, drain.done});
}

void EngineLoop::Handle(command::Stop& stop) { stopping_ = true; }

void EngineLoop::AttachContext(ActiveList::iterator active,
                               absl::StatusOr<PreparedRequest> prepared) {
  if (!prepared.ok()) {
    Finish(active, std::move(prepared).status());
    return;
  }
  if (active->session->only_validates()) {
    absl::Status status =
        cache_.CheckAcquire(*prepared->context, active->session->max_resident_bytes());
    if (!status.ok() && prepared->context->replaced) {
      active->look_up();
      return;
    }
    if (status.ok()) active->session->SetContext(*std::move(prepared), ContextCache::Pin());
    Finish(active, std::move(status));
    return;
  }
  const absl::Time now = options_.clock->Now();
  absl::StatusOr<ContextCache::Pin> pin =
      cache_.Acquire(prepared->context, now, active->session->max_resident_bytes());
  if (!pin.ok()) {
    // The request was prepared before another registration replaced the context.
    if (prepared->context->replaced) {
      active->look_up();
    } else {
      Finish(active, std::move(pin).status());
    }
    return;
  }
  active->session->SetContext(*std::move(prepared), *std::move(pin));
  active->requested = active->session->Requested();
}

}  // namespace chorale
