#include "tests/end_to_end/api_client.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "google/rpc/status.pb.h"
#include "tests/support/error_reasons.h"

namespace chorale::end_to_end {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(120);

template <typename Response, typename Method, typename Request>
Reply<Response> Unary(v1::Chorale::Stub& stub, Method method, const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTimeout));
  Reply<Response> reply;
  reply.status = (stub.*method)(&context, request, &reply.value);
  return reply;
}

template <typename Request>
Request Named(const std::string& id) {
  Request request;
  request.set_name("contexts/" + id);
  return request;
}

}  // namespace

ErrorDetails DetailsOf(const grpc::Status& status) {
  ErrorDetails details;
  google::rpc::Status parsed;
  if (!parsed.ParseFromString(status.error_details())) return details;
  for (const google::protobuf::Any& any : parsed.details()) {
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry_info;
    if (any.UnpackTo(&bad_request)) {
      for (const auto& violation : bad_request.field_violations()) {
        if (details.fields.empty()) details.description = violation.description();
        details.fields.push_back(violation.field());
      }
    } else if (any.UnpackTo(&retry_info)) {
      details.has_retry_delay = true;
      details.retry_delay = absl::Seconds(retry_info.retry_delay().seconds()) +
                            absl::Nanoseconds(retry_info.retry_delay().nanos());
    }
  }
  return details;
}

ApiClient::ApiClient(const std::string& address, ReceiveWindow window)
    : ApiClient(address, grpc::InsecureChannelCredentials(), window) {}

ApiClient::ApiClient(const std::string& address,
                     const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                     ReceiveWindow window) {
  grpc::ChannelArguments arguments;
  // Otherwise all clients of a process share one connection, and its flow control.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(INT_MAX);
  if (window == ReceiveWindow::kSmall) {
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 * 1024);
  }
  stub_ = v1::Chorale::NewStub(grpc::experimental::CreateCustomChannelWithInterceptors(
      address, credentials, arguments, CheckReasons(UndocumentedReasons::kFail)));
}

Reply<v1::RegisterContextResponse> ApiClient::Register(const std::string& id, const Rows& rows,
                                                       const std::string& model,
                                                       int64_t chunk_rows) const {
  v1::ContextSpec spec;
  spec.set_context_id(id);
  spec.set_target_column("y");
  spec.set_model(model);
  std::vector<v1::Table> chunks;
  for (int64_t first = 0; first < rows.count(); first += chunk_rows) {
    chunks.push_back(ContextTable(rows, first, std::min(chunk_rows, rows.count() - first)));
  }
  return Upload(spec, chunks);
}

Reply<v1::RegisterContextResponse> ApiClient::Register(const std::string& id,
                                                       const v1::Table& table,
                                                       const std::string& target_column,
                                                       v1::ContextSpec::Seasons seasons) const {
  v1::ContextSpec spec;
  spec.set_context_id(id);
  spec.set_target_column(target_column);
  spec.set_seasons(seasons);
  return Upload(spec, {table});
}

Reply<v1::RegisterContextResponse> ApiClient::Upload(const v1::ContextSpec& spec,
                                                     const std::vector<v1::Table>& chunks) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTimeout));
  Reply<v1::RegisterContextResponse> reply;
  const auto writer = stub_->RegisterContext(&context, &reply.value);
  v1::RegisterContextRequest message;
  *message.mutable_spec() = spec;
  bool open = writer->Write(message);
  for (size_t i = 0; open && i < chunks.size(); ++i) {
    *message.mutable_rows() = chunks[i];
    open = writer->Write(message);
  }
  writer->WritesDone();
  reply.status = writer->Finish();
  return reply;
}

Reply<v1::RegisterContextResponse> ApiClient::Create(
    const v1::CreateContextRequest& request) const {
  return Unary<v1::RegisterContextResponse>(*stub_, &v1::Chorale::Stub::CreateContext, request);
}

Reply<v1::Context> ApiClient::Get(const std::string& id) const {
  return Unary<v1::Context>(*stub_,
                            static_cast<grpc::Status (v1::Chorale::Stub::*)(
                                grpc::ClientContext*, const v1::GetContextRequest&, v1::Context*)>(
                                &v1::Chorale::Stub::GetContext),
                            Named<v1::GetContextRequest>(id));
}

Reply<v1::Context> ApiClient::Warm(const std::string& id) const {
  return Unary<v1::Context>(*stub_, &v1::Chorale::Stub::WarmContext,
                            Named<v1::WarmContextRequest>(id));
}

grpc::Status ApiClient::Delete(const std::string& id) const {
  return Unary<google::protobuf::Empty>(*stub_, &v1::Chorale::Stub::DeleteContext,
                                        Named<v1::DeleteContextRequest>(id))
      .status;
}

Reply<std::vector<v1::Context>> ApiClient::List(int32_t page_size) const {
  Reply<std::vector<v1::Context>> all;
  v1::ListContextsRequest request;
  request.set_page_size(page_size);
  do {
    const auto page =
        Unary<v1::ListContextsResponse>(*stub_, &v1::Chorale::Stub::ListContexts, request);
    all.status = page.status;
    all.value.insert(all.value.end(), page.value.contexts().begin(), page.value.contexts().end());
    request.set_page_token(page.value.next_page_token());
  } while (all.ok() && !request.page_token().empty());
  return all;
}

Reply<v1::PredictResponse> ApiClient::Predict(const v1::PredictRequest& request) const {
  return Unary<v1::PredictResponse>(*stub_, &v1::Chorale::Stub::Predict, request);
}

Reply<v1::LogDensityResponse> ApiClient::LogDensity(const v1::LogDensityRequest& request) const {
  return Unary<v1::LogDensityResponse>(*stub_, &v1::Chorale::Stub::LogDensity, request);
}

Samples ApiClient::Sample(const v1::SampleRequest& request, absl::Duration timeout) const {
  return SampleStream(*stub_, request, timeout).Finish();
}

v1::PredictRequest MakePredict(const std::string& id, const Rows& query_rows) {
  v1::PredictRequest request;
  request.set_context("contexts/" + id);
  *request.mutable_rows() = FeatureTable(query_rows);
  return request;
}

v1::SampleRequest MakeSample(const std::string& id, const Rows& query_rows, int64_t paths,
                             uint64_t seed) {
  v1::SampleRequest request;
  request.set_context("contexts/" + id);
  *request.mutable_rows() = FeatureTable(query_rows);
  request.set_path_count(paths);
  request.set_seed(seed);
  return request;
}

v1::LogDensityRequest MakeLogDensity(const std::string& id, const Rows& query_rows,
                                     const std::vector<double>& values) {
  v1::LogDensityRequest request;
  request.set_context("contexts/" + id);
  *request.mutable_rows() = FeatureTable(query_rows);
  request.mutable_values()->Add(values.begin(), values.end());
  return request;
}

bool SameBits(const v1::PredictResponse& a, const v1::PredictResponse& b) {
  const auto bits = [](v1::PredictResponse response) {
    response.clear_timings();
    return response.SerializeAsString();
  };
  return bits(a) == bits(b);
}

}  // namespace chorale::end_to_end
