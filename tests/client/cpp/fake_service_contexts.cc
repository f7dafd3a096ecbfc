// The calls of FakeService about contexts.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text_cells.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

// Counts a column's missing cells and categories over all chunks, and infers the type of strings.
void SummarizeColumn(const std::vector<v1::Table>& chunks, const std::string& name,
                     v1::ColumnSummary* summary) {
  std::set<std::string> categories;
  int64_t missing = 0;
  TextCellCounter texts;
  bool strings = false;
  for (const v1::Table& chunk : chunks) {
    for (const v1::Column& column : chunk.columns()) {
      if (column.name() != name) continue;
      const auto& numbers = column.numeric().values();
      missing += std::count_if(numbers.begin(), numbers.end(), [](double x) { return x != x; });
      const auto& codes = column.categorical().codes();
      missing += std::count(codes.begin(), codes.end(), -1);
      categories.insert(column.categorical().categories().begin(),
                        column.categorical().categories().end());
      strings = strings || column.has_strings();
      for (const std::string& text : column.strings().values()) {
        if (text.empty()) {
          ++missing;
        } else {
          texts.Add(text, 0);
          categories.insert(text);
        }
      }
    }
  }
  const TextType type = TypeOfTexts(texts.Finish());
  if (strings && type != TextType::kCategories) {
    summary->set_type(v1::ColumnSummary::TYPE_NUMERIC);
    summary->set_meaning(type == TextType::kDates      ? v1::NumericValues::MEANING_DATE
                         : type == TextType::kBooleans ? v1::NumericValues::MEANING_BOOLEAN
                                                       : v1::NumericValues::MEANING_UNSPECIFIED);
    categories.clear();
  }
  summary->set_missing_count(static_cast<int32_t>(missing));
  summary->set_category_count(static_cast<int32_t>(categories.size()));
}

// The part of a spec that belongs to the content.
std::string ContentOf(v1::ContextSpec spec) {
  spec.clear_validate_only();
  spec.clear_description();
  spec.clear_labels();
  spec.clear_expiration();
  spec.clear_replace();
  spec.clear_etag();
  return spec.SerializeAsString();
}

grpc::Status OtherEtag() {
  return WithReason(grpc::StatusCode::ABORTED, "the context has another etag", "ETAG_MISMATCH",
                    "chorale");
}

std::string IdOf(const std::string& name) { return name.substr(name.find('/') + 1); }

}  // namespace

grpc::Status FakeService::RegisterContext(grpc::ServerContext* server_context,
                                          grpc::ServerReader<v1::RegisterContextRequest>* reader,
                                          v1::RegisterContextResponse* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::RegisterContextRequest message;
  v1::ContextSpec spec;
  Stored stored;
  std::vector<size_t> sizes;
  while (reader->Read(&message)) {
    sizes.push_back(message.ByteSizeLong());
    if (message.has_spec()) {
      spec = message.spec();
      stored.content += ContentOf(spec);
    } else {
      stored.content += message.SerializeAsString();
      stored.chunks.push_back(message.rows());
    }
  }
  v1::Context& context = stored.context;
  context.set_name(absl::StrCat("contexts/", spec.context_id()));
  context.set_model(spec.model().empty() ? "models/fake" : spec.model());
  context.set_target_column(spec.target_column());
  context.set_state(v1::Context::STATE_NOT_RESIDENT);
  context.set_memory_row_count(spec.memory_row_count());
  if (spec.memory_row_count() > 0) {
    context.set_memory_policy(spec.memory_policy() == v1::MEMORY_POLICY_UNSPECIFIED
                                  ? v1::MEMORY_POLICY_MERGE
                                  : spec.memory_policy());
  }
  context.set_description(spec.description());
  *context.mutable_labels() = spec.labels();
  if (spec.has_ttl()) context.mutable_expire_time()->set_seconds(spec.ttl().seconds());
  context.set_digest(absl::StrCat("digest ", std::hash<std::string>()(stored.content)));
  context.set_etag(absl::StrCat("etag of ", context.digest()));
  for (const v1::Table& chunk : stored.chunks) {
    context.set_row_count(context.row_count() + RowCount(chunk));
  }
  if (!stored.chunks.empty()) {
    for (const v1::Column& column : stored.chunks.front().columns()) {
      if (column.name() == spec.target_column()) continue;
      v1::ColumnSummary* feature = context.add_features();
      feature->set_name(column.name());
      feature->set_type(column.has_numeric() ? v1::ColumnSummary::TYPE_NUMERIC
                                             : v1::ColumnSummary::TYPE_CATEGORICAL);
      feature->set_meaning(column.numeric().meaning());
      SummarizeColumn(stored.chunks, column.name(), feature);
      const bool sought = spec.seasons() != v1::ContextSpec::SEASONS_OFF;
      if (sought && column.name() == "month") feature->set_season_steps(12);
      if (column.name() == "month") {
        feature->add_calendar_features(v1::ColumnSummary::CALENDAR_FEATURE_WEEKDAY);
        feature->add_calendar_features(v1::ColumnSummary::CALENDAR_FEATURE_MONTH);
      }
    }
  }
  context.set_feature_count(context.features_size());
  MutexLock lock(&mutex_);
  upload_sizes_ = sizes;
  if (spec.validate_only()) {
    *response->mutable_context() = context;
    response->mutable_estimate()->set_device_bytes(8192);
    response->mutable_estimate()->mutable_duration()->set_nanos(250'000'000);
    return grpc::Status::OK;
  }
  const auto [it, is_new] = contexts_.try_emplace(spec.context_id(), stored);
  if (!is_new && it->second.content != stored.content) {
    if (!spec.replace()) {
      return grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "the name is taken by other content");
    }
    if (!spec.etag().empty() && spec.etag() != it->second.context.etag()) return OtherEtag();
    it->second = stored;
    response->set_replaced(true);
  }
  *response->mutable_context() = it->second.context;
  for (const v1::Table& chunk : stored.chunks) AddWarnings(chunk, response->mutable_warnings());
  response->set_already_registered(!is_new && !response->replaced());
  return grpc::Status::OK;
}

grpc::Status FakeService::GetContext(grpc::ServerContext* server_context,
                                     const v1::GetContextRequest* request, v1::Context* context) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  return Find(request->name(), context);
}

grpc::Status FakeService::WarmContext(grpc::ServerContext* server_context,
                                      const v1::WarmContextRequest* request, v1::Context* context) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  grpc::Status status = Find(request->name(), context);
  context->set_state(v1::Context::STATE_RESIDENT);
  if (status.ok() && request->encode_anew()) {
    context->clear_appended_row_count();
    MutexLock lock(&mutex_);
    contexts_[IdOf(request->name())].context.clear_appended_row_count();
  }
  return status;
}

v1::AppendRowsRequest FakeService::last_append() const {
  MutexLock lock(&mutex_);
  return last_append_;
}

grpc::Status FakeService::AppendRows(grpc::ServerContext* server_context,
                                     const v1::AppendRowsRequest* request,
                                     v1::AppendRowsResponse* response) {
  grpc::Status status = Begin(server_context);
  if (status.ok()) status = Append(request, response);
  while (append_without_response_ && !server_context->IsCancelled()) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  return status;
}

grpc::Status FakeService::Append(const v1::AppendRowsRequest* request,
                                 v1::AppendRowsResponse* response) {
  v1::Context context;
  if (grpc::Status status = Find(request->name(), &context); !status.ok()) return status;
  const int64_t rows = RowCount(request->rows());
  MutexLock lock(&mutex_);
  last_append_ = *request;
  Stored& stored = contexts_[IdOf(request->name())];
  if (request->has_first_row() && request->first_row() != context.row_count()) {
    const bool same =
        request->first_row() + rows == context.row_count() &&
        stored.chunks.back().SerializeAsString() == request->rows().SerializeAsString();
    if (!same) {
      return WithReason(grpc::StatusCode::ABORTED, "the context has another number of rows",
                        "ROW_COUNT_MISMATCH", "chorale");
    }
    response->set_already_appended(true);
    response->set_appended_row_count(rows);
    AddWarnings(request->rows(), response->mutable_warnings());
    *response->mutable_context() = context;
    return grpc::Status::OK;
  }
  const std::string& expected = request->expected_source().context_digest();
  if (!expected.empty() && expected != context.digest()) {
    return WithReason(grpc::StatusCode::FAILED_PRECONDITION, "it was replaced", "SOURCE_CHANGED",
                      "chorale");
  }
  if (!request->etag().empty() && request->etag() != context.etag()) return OtherEtag();
  context.set_row_count(context.row_count() + rows);
  context.set_appended_row_count(context.appended_row_count() + rows);
  context.set_etag(absl::StrCat(context.etag(), "+", rows));
  *response->mutable_context() = context;
  response->set_appended_row_count(rows);
  AddWarnings(request->rows(), response->mutable_warnings());
  if (request->validate_only()) {
    response->mutable_estimate()->set_device_bytes(4096);
    return grpc::Status::OK;
  }
  stored.context = context;
  stored.chunks.push_back(request->rows());
  return grpc::Status::OK;
}

v1::ListContextsRequest FakeService::last_list() const {
  MutexLock lock(&mutex_);
  return last_list_;
}

grpc::Status FakeService::ListContexts(grpc::ServerContext* server_context,
                                       const v1::ListContextsRequest* request,
                                       v1::ListContextsResponse* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  const int limit = std::min(request->page_size(), page_limit_.load());
  MutexLock lock(&mutex_);
  last_list_ = *request;
  for (auto it = contexts_.upper_bound(request->page_token()); it != contexts_.end(); ++it) {
    if (response->contexts_size() == limit) {
      const std::string& last = response->contexts(limit - 1).name();
      response->set_next_page_token(last.substr(last.find('/') + 1));
      break;
    }
    v1::Context* const context = response->add_contexts();
    *context = it->second.context;
    if (request->view() != v1::CONTEXT_VIEW_FULL) context->clear_features();
  }
  if (!page_token_.empty()) response->set_next_page_token(page_token_);
  return grpc::Status::OK;
}

grpc::Status FakeService::DeleteContext(grpc::ServerContext* server_context,
                                        const v1::DeleteContextRequest* request,
                                        google::protobuf::Empty*) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::Context context;
  if (grpc::Status status = Find(request->name(), &context); !status.ok()) {
    return request->allow_missing() ? grpc::Status::OK : status;
  }
  if (!request->etag().empty() && request->etag() != context.etag()) return OtherEtag();
  MutexLock lock(&mutex_);
  contexts_.erase(IdOf(request->name()));
  return grpc::Status::OK;
}

}  // namespace chorale::client
