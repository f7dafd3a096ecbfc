#include "server/rpc/register_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/free_request.h"
#include "server/rpc/tenant.h"

namespace chorale {

RegisterReactor* RegisterReactor::Start(const ServiceEnvironment& environment,
                                        grpc::CallbackServerContext* context,
                                        v1::RegisterContextResponse* response) {
  auto reactor =
      std::shared_ptr<RegisterReactor>(new RegisterReactor(environment, context, response));
  reactor->self_ = reactor;
  if (reactor->live_.admission().ok()) {
    reactor->Read();
  } else {
    reactor->live_.Finish(reactor->live_.admission());
  }
  return reactor.get();
}

RegisterReactor::RegisterReactor(const ServiceEnvironment& environment,
                                 grpc::CallbackServerContext* context,
                                 v1::RegisterContextResponse* response)
    : environment_(environment),
      tenant_(TenantOf(*context)),
      response_(response),
      live_(Method::kRegisterContext, context, environment.registry, environment.metrics,
            [this](grpc::Status status) { Finish(std::move(status)); }),
      assembler_(environment.limits),
      memory_(std::in_place, environment.registration_memory) {}

void RegisterReactor::Read() {
  live_.WaitBegun();
  StartRead(&message_);
}

void RegisterReactor::OnReadDone(bool ok) {
  live_.WaitDone();
  if (ok) {
    if (absl::Status status = TakeMessage(); !status.ok()) {
      Conclude(status);
      return;
    }
    Read();
    return;
  }
  // The client has sent everything, or has gone away: a read ends the same way for both, and
  // OnCancel may come later. But a stream that was cut off is closed for writing too, so headers
  // tell.
  live_.WaitBegun();
  StartSendInitialMetadata();
}

void RegisterReactor::OnSendInitialMetadataDone(bool ok) {
  live_.WaitDone();
  if (!ok) {
    Conclude(absl::CancelledError("the client went away"));
    return;
  }
  if (environment_.blocking->TryRun([self = self_] { self->Register(); })) return;
  environment_.metrics->Rejected("blocking_queue_full");
  Conclude(ExhaustedRetryAfter("too many calls wait for the disk", environment_.retry_delay));
}

absl::Status RegisterReactor::TakeMessage() {
  absl::Status added = assembler_->Add(message_);
  FreeRequest(&message_);  // and not when the client likes to send the next one
  RETURN_IF_ERROR(added);
  // Once as it is assembled, once as the engine encodes it.
  if (memory_->GrowTo(assembler_->memory_bytes() + assembler_->bytes())) return absl::OkStatus();
  environment_.metrics->Rejected("registration_memory");
  return ExhaustedRetryAfter("the memory for registrations is used up by other calls",
                             environment_.retry_delay);
}

void RegisterReactor::Register() { Conclude(RegisterNow()); }

absl::Status RegisterReactor::RegisterNow() {
  // While it waited; nobody would hear of the outcome.
  if (cancelled_) return absl::CancelledError("the client went away");
  live_.Note("context", assembler_->context_id());
  live_.Note("rows", assembler_->rows());
  live_.Note("bytes", assembler_->bytes());
  absl::StatusOr<Dataset> dataset = assembler_->Finish();
  RETURN_IF_ERROR(dataset.status());
  absl::StatusOr<RegisterOutcome> outcome = environment_.engine->Register(
      tenant_, assembler_->context_id(), assembler_->model_id(), *dataset);
  RETURN_IF_ERROR(outcome.status());
  EncodeContext(outcome->context, response_->mutable_context());
  response_->set_already_registered(outcome->outcome == PutOutcome::kUnchanged);
  return absl::OkStatus();
}

void RegisterReactor::Conclude(const absl::Status& status) {
  // Before the client hears of the end, so that its next call finds the memory free.
  assembler_.reset();
  memory_.reset();
  live_.Finish(status);
}

void RegisterReactor::OnCancel() { cancelled_ = true; }

void RegisterReactor::OnDone() {
  live_.Done();
  const std::shared_ptr<RegisterReactor> last = std::move(self_);  // may delete this on return
}

}  // namespace chorale
