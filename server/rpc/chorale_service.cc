#include "server/rpc/chorale_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "chorale/v1/chorale.grpc.pb.h"  // with it gRPC's handlers, whose header has moved since
#include "server/codec/list_decoder.h"
#include "server/codec/model_page.h"
#include "server/codec/request_decoder.h"
#include "server/codec/resource_name.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/append_rows.h"
#include "server/rpc/message.h"
#include "server/rpc/register_reactor.h"
#include "server/rpc/run_blocking.h"
#include "server/rpc/sample_reactor.h"
#include "server/rpc/server_info.h"
#include "server/security/access_control.h"

namespace chorale {
namespace {

using Environment = ServiceEnvironment;
using ReactorPtr = std::shared_ptr<UnaryReactor>;

// An engine callback that encodes and sends the result on the reply executor, to unburden the
// engine thread.
template <typename Result, typename Response>
Callback<Result> Reply(const Environment& environment, ReactorPtr reactor,
                       void (*encode)(const Result&, Response*)) {
  return [&environment, reactor = std::move(reactor), encode](absl::StatusOr<Result> result) {
    (void)environment.replies->TryRun(reactor->live().client(),
                                      [reactor, encode, result = std::move(result)] {
                                        if (!result.ok()) {
                                          reactor->Finish(result.status());
                                          return;
                                        }
                                        Response response;
                                        encode(*result, &response);
                                        reactor->FinishWith(response);
                                      });
  };
}

// ---- What each unary method does with its request ----

absl::Status GetContext(const Environment& environment, const ReactorPtr& reactor,
                        const v1::GetContextRequest& request) {
  absl::StatusOr<std::string> name = ParseContextName(request.name(), "name");
  RETURN_IF_ERROR(name.status());
  reactor->live().Note("context", *name);
  return RunBlocking(environment, environment.blocking, reactor,
                     [engine = environment.engine, tenant = reactor->live().caller().tenant,
                      name = *std::move(name)]() -> absl::StatusOr<v1::Context> {
                       ASSIGN_OR_RETURN(ContextInfo info, engine->GetContext(tenant, name));
                       v1::Context response;
                       EncodeContext(info, &response);
                       return response;
                     });
}

absl::Status ListContexts(const Environment& environment, const ReactorPtr& reactor,
                          const v1::ListContextsRequest& request) {
  ASSIGN_OR_RETURN(int64_t page_size, DecodePageSize(request.page_size()));
  ASSIGN_OR_RETURN(ContextQuery query, DecodeContextQuery(request));
  return RunBlocking(
      environment, environment.lists, reactor,
      [engine = environment.engine, tenant = reactor->live().caller().tenant,
       query = std::move(query), limits = PageLimits{page_size, environment.max_message_bytes / 8},
       token = request.page_token()]() -> absl::StatusOr<v1::ListContextsResponse> {
        ASSIGN_OR_RETURN(ContextInfoPage page, engine->ListContexts(tenant, query, limits, token));
        v1::ListContextsResponse response;
        EncodeContextPage(page, &response);
        return response;
      });
}

absl::Status DeleteContext(const Environment& environment, const ReactorPtr& reactor,
                           const v1::DeleteContextRequest& request) {
  absl::StatusOr<std::string> name = ParseContextName(request.name(), "name");
  RETURN_IF_ERROR(name.status());
  reactor->live().Note("context", *name);
  return RunBlocking(
      environment, environment.blocking, reactor,
      [engine = environment.engine, tenant = reactor->live().caller().tenant,
       name = *std::move(name), terms = DeleteTerms{request.etag(), request.allow_missing()}]()
          -> absl::StatusOr<google::protobuf::Empty> {
        RETURN_IF_ERROR(engine->DeleteContext(tenant, name, terms));
        return google::protobuf::Empty();
      });
}

absl::Status WarmContext(const Environment& environment, const ReactorPtr& reactor,
                         const v1::WarmContextRequest& request) {
  ASSIGN_OR_RETURN(std::string name, ParseContextName(request.name(), "name"));
  if (request.encode_anew()) {
    RETURN_IF_ERROR(AccessControl::Authorize(
        reactor->live().caller(), "WarmContext with encode_anew", RoleFor(Method::kAppendRows)));
    reactor->live().Note("encode_anew", int64_t{1});
  }
  reactor->Attach(
      environment.engine->Warm(reactor->live().MakeCallContext(reactor, name),
                               {.context = name, .encode_anew = request.encode_anew()},
                               Reply<ContextInfo>(environment, reactor, &EncodeContext)));
  return absl::OkStatus();
}

absl::Status Predict(const Environment& environment, const ReactorPtr& reactor,
                     const v1::PredictRequest& request) {
  ASSIGN_OR_RETURN(PredictRequest decoded, DecodePredict(request, environment.limits->Get()));
  CallContext call = reactor->live().MakeCallContext(reactor, decoded.context);
  reactor->live().Note("query_rows", decoded.query_rows.rows());
  RETURN_IF_ERROR(reactor->live().TakeValues(decoded.query_rows.rows(), 1));
  reactor->Attach(
      environment.engine->Predict(std::move(call), std::move(decoded),
                                  Reply<PredictResult>(environment, reactor, &EncodePredict)));
  return absl::OkStatus();
}

absl::Status Summarize(const Environment& environment, const ReactorPtr& reactor,
                       const v1::SummarizeRequest& request) {
  ASSIGN_OR_RETURN(SummarizeRequest decoded, DecodeSummarize(request, environment.limits->Get()));
  CallContext call = reactor->live().MakeCallContext(reactor, decoded.context);
  reactor->live().Note("paths", decoded.paths);
  reactor->live().Note("query_rows", decoded.query_rows.rows());
  reactor->live().Note("functionals", static_cast<int64_t>(decoded.functionals.size()));
  if (decoded.validate_only) {
    reactor->live().Note("validate_only", true);
  } else {
    RETURN_IF_ERROR(reactor->live().TakeValues(decoded.paths, decoded.query_rows.rows()));
  }
  reactor->Attach(environment.engine->Summarize(
      std::move(call), std::move(decoded),
      Reply<SummarizeResult>(environment, reactor, &EncodeSummarize)));
  return absl::OkStatus();
}

absl::Status LogDensity(const Environment& environment, const ReactorPtr& reactor,
                        const v1::LogDensityRequest& request) {
  ASSIGN_OR_RETURN(LogDensityRequest decoded, DecodeLogDensity(request, environment.limits->Get()));
  CallContext call = reactor->live().MakeCallContext(reactor, decoded.context);
  reactor->live().Note("query_rows", decoded.query_rows.rows());
  reactor->live().Note("values", static_cast<int64_t>(decoded.y.size()));
  reactor->live().Note("vectors", decoded.vectors);
  reactor->live().Note("orders", decoded.random_orders);
  RETURN_IF_ERROR(reactor->live().TakeValues(static_cast<int64_t>(decoded.y.size()),
                                             std::max<int64_t>(1, decoded.random_orders)));
  reactor->Attach(environment.engine->LogDensity(
      std::move(call), std::move(decoded),
      Reply<LogDensityResult>(environment, reactor, &EncodeLogDensity)));
  return absl::OkStatus();
}

absl::Status GetModel(const Environment& environment, const ReactorPtr& reactor,
                      const v1::GetModelRequest& request) {
  ASSIGN_OR_RETURN(std::string name, ParseModelName(request.name(), "name"));
  for (const ModelInfo& info : environment.engine->Models()) {
    if (info.name != name) continue;
    v1::Model response;
    EncodeModel(info, &response);
    reactor->FinishWith(response);
    return absl::OkStatus();
  }
  return MakeError(ErrorReason::kModelNotFound, absl::StrCat("no model ", QuoteName(name)));
}

absl::Status ListModels(const Environment& environment, const ReactorPtr& reactor,
                        const v1::ListModelsRequest& request) {
  ASSIGN_OR_RETURN(int64_t page_size, DecodePageSize(request.page_size()));
  v1::ListModelsResponse response;
  RETURN_IF_ERROR(
      FillModelPage(environment.engine->Models(), page_size, request.page_token(), &response));
  reactor->FinishWith(response);
  return absl::OkStatus();
}

absl::Status GetServerInfo(const Environment& environment, const ReactorPtr& reactor,
                           const v1::GetServerInfoRequest& /*request*/) {
  reactor->FinishWith(DescribeServer(environment, reactor->live().caller().policy.quotas));
  return absl::OkStatus();
}

}  // namespace

ChoraleService::ChoraleService(const ServiceEnvironment* environment) : environment_(*environment) {
  SilenceParser();
  for (const Method method : {Method::kRegisterContext, Method::kCreateContext}) {
    Add(method, [this, method](grpc::CallbackServerContext* context) {
      return std::make_shared<RegisterReactor>(method, environment_, context);
    });
  }
  Add(Method::kSample, [this](grpc::CallbackServerContext* context) {
    return std::make_shared<SampleReactor>(environment_, context);
  });
  AddUnary(Method::kAppendRows, &AppendRows);
  AddUnary(Method::kGetContext, &GetContext);
  AddUnary(Method::kListContexts, &ListContexts);
  AddUnary(Method::kDeleteContext, &DeleteContext);
  AddUnary(Method::kWarmContext, &WarmContext);
  AddUnary(Method::kPredict, &Predict);
  AddUnary(Method::kSummarize, &Summarize);
  AddUnary(Method::kLogDensity, &LogDensity);
  AddUnary(Method::kGetModel, &GetModel);
  AddUnary(Method::kListModels, &ListModels);
  AddUnary(Method::kGetServerInfo, &GetServerInfo);
}

void ChoraleService::Add(Method method, ReactorFactory make_reactor) {
  const auto index = static_cast<int>(names_.size());
  names_.push_back(absl::StrCat("/", v1::Chorale::service_full_name(), "/", MethodName(method)));
  AddMethod(new grpc::internal::RpcServiceMethod(
      names_.back().c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
  MarkMethodRawCallback(
      index, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                 [make_reactor = std::move(make_reactor)](grpc::CallbackServerContext* context) {
                   return Reactor::Start(make_reactor(context));
                 }));
}

template <typename Request>
void ChoraleService::AddUnary(Method method, Handler<Request> handler) {
  Add(method, [this, method, handler](grpc::CallbackServerContext* context) {
    return std::make_shared<UnaryReactor>(
        method, environment_, context,
        [this, handler](const ReactorPtr& reactor, grpc::ByteBuffer* bytes) {
          Request request;
          RETURN_IF_ERROR(ParseMessage(bytes, &request));
          return handler(environment_, reactor, request);
        });
  });
}

}  // namespace chorale
