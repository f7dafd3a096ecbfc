#include "tests/client/cpp/fake_service.h"

#include <grpcpp/server_builder.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/number_text.h"
#include "tests/client/cpp/fake_known_values.h"
#include "tests/client/cpp/fake_samples.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

void AddPrediction(const v1::PredictRequest& request, double score, v1::PredictResponse* response) {
  response->add_means(score);
  response->add_stds(score / 2.0 + 1.0);
  for (const double p : request.quantiles()) response->add_quantiles(score + p);
  if (!request.include_mixtures()) return;
  v1::Mixtures* mixtures = response->mutable_mixtures();
  mixtures->set_component_count(2);
  for (const double shift : {-1.0, 1.0}) {
    mixtures->add_means(score + shift);
    mixtures->add_stds(2.0);
    mixtures->add_weights(0.5);
  }
}

}  // namespace

int64_t RowCount(const v1::Table& table) {
  if (table.columns().empty()) return 0;
  const v1::Column& column = table.columns(0);
  if (column.has_strings()) return column.strings().values_size();
  return column.has_numeric() ? column.numeric().values_size() : column.categorical().codes_size();
}

void AddWarnings(const v1::Table& table,
                 google::protobuf::RepeatedPtrField<v1::Warning>* warnings) {
  for (const v1::Column& column : table.columns()) {
    const auto& numbers = column.numeric().values();
    const auto& strings = column.strings().values();
    const auto count =
        std::count_if(numbers.begin(), numbers.end(), [](double x) { return x > 1e6; }) +
        std::count_if(strings.begin(), strings.end(),
                      [](const std::string& text) { return ParseNumber(text).value_or(0) > 1e6; });
    if (count == 0) continue;
    v1::Warning* warning = warnings->Add();
    warning->set_reason(v1::Warning::REASON_OUTLIERS);
    warning->set_severity(v1::Warning::SEVERITY_WARNING);
    warning->set_column(column.name());
    warning->set_cell_count(count);
    warning->set_message(absl::StrCat("column \"", column.name(), "\": ", count, " too large"));
  }
}

std::vector<double> Scores(const v1::Table& table) {
  std::vector<double> scores(RowCount(table), 0.0);
  for (const v1::Column& column : table.columns()) {
    for (size_t row = 0; row < scores.size(); ++row) {
      const int at = static_cast<int>(row);
      if (column.has_numeric()) {
        const double value = column.numeric().values(at);
        scores[row] += std::isnan(value) ? 0.0 : value;
      } else if (column.has_strings()) {
        const std::string& text = column.strings().values(at);
        scores[row] += ParseNumber(text).value_or(static_cast<double>(text.size()));
      } else if (const int code = column.categorical().codes(at); code >= 0) {
        scores[row] += static_cast<double>(column.categorical().categories(code).size());
      }
    }
  }
  return scores;
}

double SampleValue(double score, int64_t path, uint64_t seed) {
  return score + static_cast<double>(path) / 1024.0 + static_cast<double>(seed);
}

double SampleLogDensity(int64_t path, int64_t target) {
  return -(static_cast<double>(path) + static_cast<double>(target) / 1024.0);
}

void FakeService::FailNext(std::vector<grpc::Status> statuses) {
  MutexLock lock(&mutex_);
  failures_.assign(statuses.begin(), statuses.end());
}

std::vector<absl::Time> FakeService::call_times() const {
  MutexLock lock(&mutex_);
  return call_times_;
}

std::vector<std::string> FakeService::TakeContextMetadata() {
  MutexLock lock(&mutex_);
  return std::exchange(context_metadata_, {});
}

std::string FakeService::authorization() const {
  MutexLock lock(&mutex_);
  return authorization_;
}

std::vector<size_t> FakeService::upload_sizes() const {
  MutexLock lock(&mutex_);
  return upload_sizes_;
}

std::vector<v1::Table> FakeService::Chunks(const std::string& id) const {
  MutexLock lock(&mutex_);
  const auto it = contexts_.find(id);
  return it == contexts_.end() ? std::vector<v1::Table>() : it->second.chunks;
}

v1::SampleRequest FakeService::last_sample() const {
  MutexLock lock(&mutex_);
  return last_sample_;
}

v1::LogDensityRequest FakeService::last_log_density() const {
  MutexLock lock(&mutex_);
  return last_log_density_;
}

std::vector<v1::PredictRequest> FakeService::predict_requests() const {
  MutexLock lock(&mutex_);
  return predict_requests_;
}

grpc::Status FakeService::Begin(const grpc::ServerContext* server_context) {
  ++call_count_;
  const absl::Time end = absl::Now() + absl::Milliseconds(delay_ms_.load());
  for (absl::Time now = absl::Now(); now < end && !server_context->IsCancelled();
       now = absl::Now()) {
    absl::SleepFor(std::min(end - now, absl::Milliseconds(2)));
  }
  const auto& metadata = server_context->client_metadata();
  const auto [first, last] = metadata.equal_range("chorale-context");
  std::vector<std::string> ids;
  for (auto it = first; it != last; ++it) ids.emplace_back(it->second.data(), it->second.size());
  MutexLock lock(&mutex_);
  call_times_.push_back(absl::Now());
  context_metadata_.push_back(absl::StrJoin(ids, ","));
  const auto token = metadata.find("authorization");
  authorization_ = token == metadata.end()
                       ? std::string()
                       : std::string(token->second.data(), token->second.size());
  if (failures_.empty()) return grpc::Status::OK;
  grpc::Status status = failures_.front();
  failures_.pop_front();
  return status;
}

grpc::Status FakeService::Find(const std::string& name, v1::Context* context) const {
  MutexLock lock(&mutex_);
  const auto it = contexts_.find(name.substr(name.find('/') + 1));
  if (it == contexts_.end()) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("no context '", name, "'"));
  }
  *context = it->second.context;
  return grpc::Status::OK;
}

grpc::Status FakeService::Predict(grpc::ServerContext* server_context,
                                  const v1::PredictRequest* request,
                                  v1::PredictResponse* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::Context context;
  if (grpc::Status status = Find(request->context(), &context); !status.ok()) return status;
  {
    MutexLock lock(&mutex_);
    predict_requests_.push_back(*request);
  }
  const std::string& expected = request->expected_source().context_digest();
  if (!expected.empty() && expected != context.digest()) {
    return WithReason(grpc::StatusCode::FAILED_PRECONDITION, "it was replaced", "SOURCE_CHANGED",
                      "chorale");
  }
  response->mutable_source()->set_context_digest(context.digest());
  response->mutable_source()->set_model_digest("model");
  AddWarnings(request->rows(), response->mutable_warnings());
  const std::vector<double> scores = Scores(request->rows());
  const v1::PredictRequest sent = Understood(*request);
  const auto groups = FakeGroups(sent.known(), sent.group_sizes(), RowCount(sent.rows()));
  AddKnownLogDensities(sent.known(), groups, response->mutable_known_log_densities());
  for (const FakeKnownValues& group : groups) {
    for (const int64_t row : group.others()) {
      AddPrediction(*request, scores[row] + group.Shift(0), response);
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeService::Sample(grpc::ServerContext* server_context,
                                 const v1::SampleRequest* request,
                                 grpc::ServerWriter<v1::SampleResponse>* writer) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::Context context;
  if (grpc::Status status = Find(request->context(), &context); !status.ok()) return status;
  {
    MutexLock lock(&mutex_);
    last_sample_ = *request;
  }
  const uint64_t seed = request->has_seed() ? request->seed() : kPickedSeed;
  const StreamFault fault = stream_fault_;
  if (request->validate_only() && fault != StreamFault::kIgnoreValidateOnly) {
    v1::SampleResponse only;
    only.mutable_summary()->set_seed(seed);
    only.mutable_summary()->mutable_estimate()->set_device_bytes(4096);
    only.mutable_summary()->mutable_estimate()->mutable_duration()->set_seconds(3);
    writer->Write(only);
    return grpc::Status::OK;
  }
  v1::SampleRequest sent = Understood(*request);
  if (ignores_delivery_) ForgetDelivery(&sent);
  if (ignores_totals_) sent.clear_known_totals();
  const auto groups = FakeGroups(sent.known(), sent.group_sizes(), RowCount(sent.rows()));
  std::vector<v1::SampleBlock> blocks = FakeBlocks(sent, groups, seed, blocks_in_order_);
  DamageBlocks(fault, &blocks);
  int before_fault = blocks_before_fault_;
  for (const v1::SampleBlock& block : blocks) {
    v1::SampleResponse message;
    *message.mutable_blocks()->add_blocks() = block;
    if (!writer->Write(message)) break;
    if (--before_fault > 0) continue;
    if (fault == StreamFault::kBreakAfterFirstBlock) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    }
    if (fault == StreamFault::kCancelAfterFirstBlock) return grpc::Status::CANCELLED;
    while (fault == StreamFault::kHang && !server_context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  if (server_context->IsCancelled()) {
    ++cancelled_count_;
    return grpc::Status::CANCELLED;
  }
  v1::SampleResponse last;
  last.mutable_summary()->set_seed(seed);
  last.mutable_summary()->mutable_source()->set_context_digest(context.digest());
  AddKnownLogDensities(sent.known(), groups, last.mutable_summary()->mutable_known_log_densities());
  AddTotalWeights(sent, last.mutable_summary());
  AddWarnings(request->rows(), last.mutable_summary()->mutable_warnings());
  if (fault != StreamFault::kNoSummary) writer->Write(last);
  return grpc::Status::OK;
}

grpc::Status FakeService::LogDensity(grpc::ServerContext* server_context,
                                     const v1::LogDensityRequest* request,
                                     v1::LogDensityResponse* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::Context context;
  if (grpc::Status status = Find(request->context(), &context); !status.ok()) return status;
  {
    MutexLock lock(&mutex_);
    last_log_density_ = *request;
  }
  const std::vector<double> scores = Scores(request->rows());
  const v1::LogDensityRequest sent = Understood(*request);
  const auto groups = FakeGroups(sent.known(), sent.group_sizes(), RowCount(sent.rows()));
  AddKnownLogDensities(sent.known(), groups, response->mutable_known_log_densities());
  const int width = static_cast<int>(RowCount(sent.rows())) - sent.known().rows_size();
  int at = 0;
  for (int vector = 0; vector < request->values_size() / width; ++vector) {
    for (const FakeKnownValues& group : groups) {
      double joint = 0.0;
      for (const int64_t row : group.others()) {
        const double score = scores[row] + group.Shift(vector);
        const double term = -std::abs(request->values(at++) - score);
        if (request->include_terms()) response->add_terms(term);
        if (request->include_cdfs()) response->add_cdfs(1 / (2 - term));
        joint += term;
      }
      response->add_log_densities(joint);
      if (request->random_order_count() >= 4) response->add_standard_errors(0.5);
    }
  }
  if (request->random_order_count() > 0) response->set_seed(kPickedSeed);
  AddWarnings(request->rows(), response->mutable_warnings());
  return grpc::Status::OK;
}

void FakeService::set_notice(const std::string& notice) {
  MutexLock lock(&mutex_);
  notice_ = notice;
}

void FakeService::set_form(const std::string& form) {
  MutexLock lock(&mutex_);
  form_ = form;
}

grpc::Status FakeService::ListModels(grpc::ServerContext* server_context,
                                     const v1::ListModelsRequest*,
                                     v1::ListModelsResponse* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::Model* model = response->add_models();
  model->set_name("models/fake");
  model->set_model_type("ar_tabpfn");
  model->set_buffer_size(32);
  model->set_is_default(true);
  model->set_parameter_count(2'259'000);
  MutexLock lock(&mutex_);
  model->set_notice(notice_);
  model->set_form(form_);
  return grpc::Status::OK;
}

grpc::Status FakeService::GetServerInfo(grpc::ServerContext* server_context,
                                        const v1::GetServerInfoRequest*, v1::ServerInfo* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  response->set_version("9.8.7");
  response->set_commit("abcdef");
  response->set_backend("cpu");
  response->set_device("avx2");
  response->add_features(v1::ServerInfo::FEATURE_REFLECTION);
  response->add_features(v1::ServerInfo::FEATURE_MEMORY_SETS);
  response->add_features(v1::ServerInfo::FEATURE_APPEND_ROWS);
  response->add_features(static_cast<v1::ServerInfo::Feature>(99));  // of a newer server
  response->mutable_limits()->set_max_message_bytes(4 << 20);
  response->mutable_limits()->set_max_paths(16'384);
  response->mutable_quotas()->set_max_contexts(7);
  return grpc::Status::OK;
}

FakeServer::FakeServer(const std::string& address,
                       const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, credentials, &port);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace chorale::client
