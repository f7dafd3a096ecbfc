#include "server/rpc/chorale_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "server/codec/context_page.h"
#include "server/codec/model_page.h"
#include "server/codec/request_decoder.h"
#include "server/codec/resource_name.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/free_request.h"
#include "server/rpc/register_reactor.h"
#include "server/rpc/sample_reactor.h"
#include "server/rpc/tenant.h"
#include "server/rpc/unary_reactor.h"

namespace chorale {
namespace {

using ReactorPtr = std::shared_ptr<UnaryReactor>;

// Starts a unary call and, if the server admits it, runs `body`. If `body` returns an error, the
// call finishes with it; otherwise `body` has arranged for the call to finish. Frees the request.
template <typename Request, typename Body>
grpc::ServerUnaryReactor* RunUnary(Method method, const ServiceEnvironment& environment,
                                   grpc::CallbackServerContext* context, const Request* request,
                                   Body body) {
  ReactorPtr reactor = UnaryReactor::Start(method, environment, context);
  const absl::Status& admission = reactor->live().admission();
  const absl::Status status = admission.ok() ? body(reactor) : admission;
  FreeRequest(request);
  if (!status.ok()) reactor->Finish(status);
  return reactor.get();
}

// Runs `task` on the blocking executor; it returns the status to finish the call with.
template <typename Task>
absl::Status RunBlocking(const ServiceEnvironment& environment, ReactorPtr reactor, Task task) {
  const bool runs = environment.blocking->TryRun([reactor, task = std::move(task)]() mutable {
    reactor->Finish(reactor->cancelled() ? absl::CancelledError("the client disconnected")
                                         : task());
  });
  if (runs) return absl::OkStatus();
  environment.metrics->Rejected("blocking_queue_full");
  return ExhaustedRetryAfter("too many calls are waiting for the disk", environment.retry_delay);
}

// The client's library would refuse a message over the limit with an unhelpful error. The engine
// refuses most such requests before it runs them (Limits::max_response_bytes); this check is for
// sizes that it cannot know in advance.
absl::Status CheckSize(const google::protobuf::Message& response, int64_t limit) {
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  if (bytes <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the response would have ", bytes,
                                                 " bytes; the limit is ", limit,
                                                 ": request less per call"));
}

// An engine callback that encodes and sends the result on the reply executor, to unburden the
// engine thread.
template <typename Result, typename Response>
Engine::Callback<Result> Reply(const ServiceEnvironment& environment, ReactorPtr reactor,
                               Response* response, void (*encode)(const Result&, Response*)) {
  return [&environment, reactor = std::move(reactor), response,
          encode](absl::StatusOr<Result> result) {
    (void)environment.replies->TryRun(
        [&environment, reactor, response, encode, result = std::move(result)] {
          absl::Status status = result.status();
          if (status.ok()) {
            encode(*result, response);
            status = CheckSize(*response, environment.max_message_bytes);
          }
          reactor->Finish(status);
        });
  };
}

template <typename Request>
void FillBase(const grpc::CallbackServerContext& context, UnaryReactor& reactor, Request* request) {
  request->tenant = TenantOf(context);
  request->deadline = reactor.live().deadline();
  reactor.live().Note("context", request->context);
  reactor.live().Note("targets", request->targets.rows());
}

}  // namespace

grpc::ServerReadReactor<v1::RegisterContextRequest>* ChoraleService::RegisterContext(
    grpc::CallbackServerContext* context, v1::RegisterContextResponse* response) {
  return RegisterReactor::Start(environment_, context, response);
}

grpc::ServerWriteReactor<v1::SampleResponse>* ChoraleService::Sample(
    grpc::CallbackServerContext* context, const v1::SampleRequest* request) {
  SampleReactor* reactor = SampleReactor::Start(environment_, context, *request);
  FreeRequest(request);
  return reactor;
}

grpc::ServerUnaryReactor* ChoraleService::GetContext(grpc::CallbackServerContext* context,
                                                     const v1::GetContextRequest* request,
                                                     v1::Context* response) {
  return RunUnary(Method::kGetContext, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<std::string> name = ParseContextName(request->name(), "name");
    RETURN_IF_ERROR(name.status());
    reactor->live().Note("context", *name);
    return RunBlocking(environment_, reactor,
                       [engine = environment_.engine, tenant = TenantOf(*context),
                        name = *std::move(name), response] {
                         absl::StatusOr<ContextInfo> info = engine->GetContext(tenant, name);
                         if (info.ok()) EncodeContext(*info, response);
                         return info.status();
                       });
  });
}

grpc::ServerUnaryReactor* ChoraleService::ListContexts(grpc::CallbackServerContext* context,
                                                       const v1::ListContextsRequest* request,
                                                       v1::ListContextsResponse* response) {
  return RunUnary(Method::kListContexts, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<int64_t> page_size = DecodePageSize(request->page_size());
    RETURN_IF_ERROR(page_size.status());
    return RunBlocking(
        environment_, reactor,
        [engine = environment_.engine, tenant = TenantOf(*context), page_size = *page_size,
         token = request->page_token(), max_bytes = environment_.max_message_bytes / 2, response] {
          return FillContextPage(engine, tenant, {page_size, max_bytes}, token, response);
        });
  });
}

grpc::ServerUnaryReactor* ChoraleService::DeleteContext(grpc::CallbackServerContext* context,
                                                        const v1::DeleteContextRequest* request,
                                                        google::protobuf::Empty* /*response*/) {
  return RunUnary(Method::kDeleteContext, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<std::string> name = ParseContextName(request->name(), "name");
    RETURN_IF_ERROR(name.status());
    reactor->live().Note("context", *name);
    return RunBlocking(environment_, reactor,
                       [engine = environment_.engine, tenant = TenantOf(*context),
                        name = *std::move(name)] { return engine->DeleteContext(tenant, name); });
  });
}

grpc::ServerUnaryReactor* ChoraleService::WarmContext(grpc::CallbackServerContext* context,
                                                      const v1::WarmContextRequest* request,
                                                      v1::Context* response) {
  return RunUnary(Method::kWarmContext, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<std::string> name = ParseContextName(request->name(), "name");
    RETURN_IF_ERROR(name.status());
    reactor->live().Note("context", *name);
    reactor->Attach(environment_.engine->Warm(
        TenantOf(*context), *name, reactor->live().deadline(),
        Reply<ContextInfo>(environment_, reactor, response, &EncodeContext)));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ChoraleService::Predict(grpc::CallbackServerContext* context,
                                                  const v1::PredictRequest* request,
                                                  v1::PredictResponse* response) {
  return RunUnary(Method::kPredict, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<PredictRequest> decoded = DecodePredict(*request, environment_.limits);
    RETURN_IF_ERROR(decoded.status());
    FillBase(*context, *reactor, &*decoded);
    reactor->Attach(environment_.engine->Predict(
        *std::move(decoded),
        Reply<PredictResult>(environment_, reactor, response, &EncodePredict)));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ChoraleService::LogDensity(grpc::CallbackServerContext* context,
                                                     const v1::LogDensityRequest* request,
                                                     v1::LogDensityResponse* response) {
  return RunUnary(Method::kLogDensity, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<LogDensityRequest> decoded = DecodeLogDensity(*request, environment_.limits);
    RETURN_IF_ERROR(decoded.status());
    FillBase(*context, *reactor, &*decoded);
    reactor->live().Note("vectors", decoded->vectors);
    reactor->live().Note("orders", decoded->random_orders);
    reactor->Attach(environment_.engine->LogDensity(
        *std::move(decoded),
        Reply<LogDensityResult>(environment_, reactor, response, &EncodeLogDensity)));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ChoraleService::GetModel(grpc::CallbackServerContext* context,
                                                   const v1::GetModelRequest* request,
                                                   v1::Model* response) {
  return RunUnary(Method::kGetModel, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<std::string> name = ParseModelName(request->name(), "name");
    RETURN_IF_ERROR(name.status());
    for (const Engine::ModelInfo& info : environment_.engine->Models()) {
      if (info.name != *name) continue;
      EncodeModel(info, response);
      reactor->Finish(absl::OkStatus());
      return absl::OkStatus();
    }
    return absl::NotFoundError(absl::StrCat("no model ", QuoteName(*name)));
  });
}

grpc::ServerUnaryReactor* ChoraleService::ListModels(grpc::CallbackServerContext* context,
                                                     const v1::ListModelsRequest* request,
                                                     v1::ListModelsResponse* response) {
  return RunUnary(Method::kListModels, environment_, context, request, [&](ReactorPtr reactor) {
    absl::StatusOr<int64_t> page_size = DecodePageSize(request->page_size());
    RETURN_IF_ERROR(page_size.status());
    absl::Status status =
        FillModelPage(environment_.engine->Models(), *page_size, request->page_token(), response);
    if (status.ok()) reactor->Finish(status);
    return status;
  });
}

}  // namespace chorale
