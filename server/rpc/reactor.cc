#include "server/rpc/reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "server/net/peer_address.h"
#include "server/rpc/message.h"

namespace chorale {
namespace {

absl::Status Disconnected() { return absl::CancelledError("the client disconnected"); }

}  // namespace

Reactor* Reactor::Start(std::shared_ptr<Reactor> reactor) {
  Reactor* const started = reactor.get();
  started->self_ = std::move(reactor);
  if (started->live_.admission().ok()) {
    started->Read();
  } else {
    started->Finish(started->live_.admission());
  }
  return started;
}

Reactor::Reactor(Method method, const ServiceEnvironment& environment,
                 grpc::CallbackServerContext* context)
    : environment_(environment),
      live_(method, context, environment,
            [this](grpc::Status status) {
              if (response_.Valid() && status.ok()) {
                StartWriteAndFinish(&response_, grpc::WriteOptions(), std::move(status));
              } else {
                ServerBidiReactor::Finish(std::move(status));
              }
            }),
      endpoint_(live_.peer().endpoint()) {
  AllowMessage();
}

void Reactor::AllowMessage() const {
  if (endpoint_.has_value()) environment_.allow_message(*endpoint_);
}

void Reactor::FinishWith(const google::protobuf::Message& response) {
  // The client's library would refuse a message over the limit with an unhelpful error. The engine
  // refuses most such requests before it runs them (Limits::max_response_bytes); this check is for
  // sizes that it cannot know in advance.
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  if (bytes > environment_.max_message_bytes) {
    Finish(
        MakeError(ErrorReason::kLimitExceeded,
                  absl::StrCat("the response would have ", bytes, " bytes; the limit is ",
                               environment_.max_message_bytes, ": request fewer values per call")));
    return;
  }
  if (!environment_.reply_memory->TryTake(live_.client(), bytes)) {
    environment_.metrics->Rejected("reply_memory");
    Finish(ExhaustedRetryAfter(ErrorReason::kResponsesUnread,
                               "the client has too many unread responses",
                               environment_.retry_delay));
    return;
  }
  reply_bytes_ = bytes;
  response_ = SerializeMessage(response);
  Finish(absl::OkStatus());
}

void Reactor::Read() {
  live_.BeginClientWait();
  StartRead(&request_);
}

void Reactor::OnReadDone(bool ok) {
  live_.EndClientWait();
  const auto bytes = static_cast<int64_t>(request_.Length());
  if (ok && bytes > environment_.max_message_bytes) {
    request_.Clear();
    FailToReceive(MakeError(ErrorReason::kMessageTooLarge,
                            absl::StrCat("the message has ", bytes, " bytes; the limit is ",
                                         environment_.max_message_bytes,
                                         " (--max_message_mib): send less per message")));
    return;
  }
  if (ok) AllowMessage();
  if (ok && request_.Length() >= kLargeMessageBytes) {
    waits_for_turn_ = true;
    (void)environment_.large_requests->TryRun(live_.client(), [weak = weak_from_this()] {
      const std::shared_ptr<Reactor> self = weak.lock();
      if (self != nullptr && self->waits_for_turn_.exchange(false)) self->Received(&self->request_);
    });
    if (cancelled_) GiveUpTurn();  // OnCancel may have come before
    return;
  }
  if (ok) {
    Received(&request_);
    return;
  }
  // The client has sent everything or has disconnected: a read ends the same way in both cases, and
  // OnCancel may come later. Sending the headers tells them apart: it fails on a broken stream.
  live_.BeginClientWait();
  live_.NoteHeaders();
  StartSendInitialMetadata();
}

void Reactor::OnCancel() {
  cancelled_ = true;
  Cancelled();
  GiveUpTurn();
}

void Reactor::GiveUpTurn() {
  if (!waits_for_turn_.exchange(false)) return;
  request_.Clear();
  FailToReceive(Disconnected());
}

void Reactor::OnSendInitialMetadataDone(bool ok) {
  live_.EndClientWait();
  if (ok) {
    ReceivedAll();
  } else {
    FailToReceive(Disconnected());
  }
}

void Reactor::OnDone() {
  Ended();
  environment_.reply_memory->GiveBack(live_.client(), reply_bytes_);
  live_.Done();
  const std::shared_ptr<Reactor> last = std::move(self_);  // may delete this on return
}

}  // namespace chorale
