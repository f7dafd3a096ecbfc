#include "server/rpc/chorale_service.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;

class ChoraleServiceTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.max_message_bytes = 64 << 10;
    StartServer();
  }

  static ContextInfo Info(const std::string& name) {
    ContextInfo info;
    info.record.name = name;
    info.record.model = "base";
    info.record.created = absl::UnixEpoch();
    return info;
  }
};

TEST_F(ChoraleServiceTest, PredictAnswers) {
  engine_->on_predict = [](const PredictRequest& request) -> absl::StatusOr<PredictResult> {
    EXPECT_EQ(request.context, "houses");
    PredictResult result;
    result.mean.assign(request.query_rows.rows(), 2.5);
    return result;
  };
  OpenServer();
  auto context = NewContext();
  v1::PredictResponse response;
  const grpc::Status status = stub_->Predict(context.get(), PredictMessage(), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(engine_->last_call().tenant, "default");
  EXPECT_THAT(response.means(), ElementsAre(2.5, 2.5, 2.5));
}

TEST_F(ChoraleServiceTest, LogDensityAnswers) {
  engine_->on_log_density = [](const LogDensityRequest& request) {
    LogDensityResult result;
    result.log_density.assign(request.vectors, -1);
    return result;
  };
  OpenServer();
  v1::LogDensityRequest request;
  request.set_context("contexts/houses");
  *request.mutable_rows() = SmallTable();
  for (int i = 0; i < 6; ++i) request.add_values(i);
  auto context = NewContext();
  v1::LogDensityResponse response;
  ASSERT_TRUE(stub_->LogDensity(context.get(), request, &response).ok());
  EXPECT_THAT(response.log_densities(), ElementsAre(-1, -1));
}

TEST_F(ChoraleServiceTest, SummarizeAnswers) {
  engine_->on_summarize = [](const SummarizeRequest& request) {
    SummarizeResult result;
    result.seed = *request.seed;
    result.means = {1, 2};
    result.functionals.emplace_back().means = {request.functionals.at(0).threshold};
    return result;
  };
  OpenServer();
  v1::SummarizeRequest request;
  request.set_context("contexts/houses");
  *request.mutable_rows() = SmallTable();
  request.set_path_count(10);
  request.set_seed(5);
  v1::Functional* functional = request.add_functionals();
  functional->set_type(v1::Functional::TYPE_COUNT);
  functional->set_threshold(1.5);
  auto context = NewContext();
  v1::SummarizeResponse response;
  ASSERT_TRUE(stub_->Summarize(context.get(), request, &response).ok());
  EXPECT_EQ(response.seed(), 5u);
  EXPECT_THAT(response.means(), ElementsAre(1, 2));
  EXPECT_THAT(response.functionals(0).means(), ElementsAre(1.5));
}

TEST_F(ChoraleServiceTest, MalformedRequestsNeverReachTheEngine) {
  engine_->on_predict = [](const PredictRequest&) -> absl::StatusOr<PredictResult> {
    ADD_FAILURE() << "the engine was asked";
    return absl::InternalError("");
  };
  OpenServer();
  auto context = NewContext();
  v1::PredictRequest request = PredictMessage();
  request.set_context("houses");
  v1::PredictResponse response;
  const grpc::Status status = stub_->Predict(context.get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "context");
}

TEST_F(ChoraleServiceTest, EngineErrorsKeepTheirDetails) {
  engine_->on_predict = [](const PredictRequest&) -> absl::StatusOr<PredictResult> {
    return InvalidField("rows.columns[0].name", "the context has no such column");
  };
  OpenServer();
  auto context = NewContext();
  v1::PredictResponse response;
  const grpc::Status status = stub_->Predict(context.get(), PredictMessage(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "rows.columns[0].name");
}

TEST_F(ChoraleServiceTest, AResponseOverTheLimitNamesTheRemedy) {
  engine_->on_predict = [](const PredictRequest&) {
    PredictResult result;
    result.mixtures.components = 10'000;
    result.mixtures.means.assign(10'000, 1);
    return result;
  };
  OpenServer();
  auto context = NewContext();
  v1::PredictResponse response;
  const grpc::Status status = stub_->Predict(context.get(), PredictMessage(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "");  // the field is unknown
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("the limit is 65536"));
}

TEST_F(ChoraleServiceTest, CancellationReachesTheEngine) {
  OpenServer();  // without a result: calls stay in flight
  auto context = NewContext();
  v1::PredictResponse response;
  std::thread canceller([&] {
    ASSERT_TRUE(engine_->WaitForBegun(1));
    context->TryCancel();
  });
  const grpc::Status status = stub_->Predict(context.get(), PredictMessage(), &response);
  canceller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  // The fake engine ends a call when it is cancelled, and only then.
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

TEST_F(ChoraleServiceTest, DeadlinesReachTheEngine) {
  OpenServer();
  v1::WarmContextRequest request;
  request.set_name("contexts/houses");
  auto context = NewContext(absl::Milliseconds(50));
  v1::Context response;
  EXPECT_EQ(stub_->WarmContext(context.get(), request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

TEST_F(ChoraleServiceTest, Contexts) {
  engine_->on_get = [](const std::string& name) -> absl::StatusOr<ContextInfo> {
    if (name != "houses") return absl::NotFoundError("no such context");
    return Info(name);
  };
  engine_->on_warm = [](const std::string& name) -> absl::StatusOr<ContextInfo> {
    ContextInfo info = Info(name);
    info.state = ContextState::kResident;
    return info;
  };
  engine_->on_list = [](const ContextQuery& query, PageLimits limits,
                        const std::string& token) -> absl::StatusOr<ContextInfoPage> {
    EXPECT_EQ(query.order, ContextField::kRows);
    EXPECT_EQ(query.conditions.size(), 1u);
    EXPECT_FALSE(query.with_columns);
    EXPECT_EQ(limits.contexts, 1000);  // a larger one is cut
    EXPECT_EQ(limits.bytes, 8 << 10);  // of a message's 64 KiB: others wait for the thread
    EXPECT_EQ(token, "after-a");
    return ContextInfoPage{{Info("b"), Info("c")}, "after-c"};
  };
  std::string deleted;
  engine_->on_delete = [&](const std::string& name, const DeleteTerms& /*terms*/) {
    deleted = name;
    return absl::OkStatus();
  };
  OpenServer();
  v1::Context response;
  v1::GetContextRequest get;
  get.set_name("contexts/houses");
  EXPECT_TRUE(stub_->GetContext(NewContext().get(), get, &response).ok());
  EXPECT_EQ(response.name(), "contexts/houses");
  get.set_name("contexts/other");
  EXPECT_EQ(stub_->GetContext(NewContext().get(), get, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  get.set_name("houses");
  const grpc::Status malformed = stub_->GetContext(NewContext().get(), get, &response);
  EXPECT_EQ(malformed.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(malformed), "name");

  v1::WarmContextRequest warm;
  warm.set_name("contexts/houses");
  EXPECT_TRUE(stub_->WarmContext(NewContext().get(), warm, &response).ok());
  EXPECT_EQ(response.state(), v1::Context::STATE_RESIDENT);
  EXPECT_EQ(engine_->encodings_anew, 0);
  warm.set_encode_anew(true);
  EXPECT_TRUE(stub_->WarmContext(NewContext().get(), warm, &response).ok());
  EXPECT_EQ(engine_->encodings_anew, 1);

  v1::ListContextsRequest list;
  list.set_page_size(5000);
  list.set_page_token("after-a");
  list.set_filter("labels.team:*");
  list.set_order_by("row_count");
  v1::ListContextsResponse page;
  EXPECT_TRUE(stub_->ListContexts(NewContext().get(), list, &page).ok());
  ASSERT_EQ(page.contexts_size(), 2);
  EXPECT_EQ(page.contexts(1).name(), "contexts/c");
  EXPECT_EQ(page.next_page_token(), "after-c");
  list.set_page_size(-1);
  EXPECT_EQ(FieldOf(stub_->ListContexts(NewContext().get(), list, &page)), "page_size");
  list.set_page_size(1);
  list.set_filter("team");
  EXPECT_EQ(FieldOf(stub_->ListContexts(NewContext().get(), list, &page)), "filter");

  v1::DeleteContextRequest remove;
  remove.set_name("contexts/houses");
  google::protobuf::Empty empty;
  EXPECT_TRUE(stub_->DeleteContext(NewContext().get(), remove, &empty).ok());
  EXPECT_EQ(deleted, "houses");
}

TEST_F(ChoraleServiceTest, ListsDoNotDelayCallsForSingleContexts) {
  std::promise<void> release;
  std::promise<void> first;
  std::atomic<int> lists = 0;
  engine_->on_list = [&, released = release.get_future().share()](
                         const ContextQuery&, PageLimits,
                         const std::string&) -> absl::StatusOr<ContextInfoPage> {
    if (++lists == 1) first.set_value();
    released.wait();
    return ContextInfoPage();
  };
  engine_->on_get = [](const std::string& name) { return Info(name); };
  OpenServer();
  std::vector<std::future<bool>> listings;
  for (int i = 0; i < 8; ++i) {
    listings.push_back(std::async(std::launch::async, [this] {
      v1::ListContextsResponse page;
      return stub_->ListContexts(NewContext().get(), {}, &page).ok();
    }));
  }
  first.get_future().wait();
  v1::GetContextRequest get;
  get.set_name("contexts/houses");
  v1::Context response;
  EXPECT_TRUE(stub_->GetContext(NewContext().get(), get, &response).ok());
  EXPECT_EQ(lists, 1);  // the others wait for it
  release.set_value();
  for (std::future<bool>& listing : listings) EXPECT_TRUE(listing.get());
  EXPECT_EQ(lists, 8);
}

TEST_F(ChoraleServiceTest, Models) {
  engine_->models.resize(2);
  engine_->models[0].name = "large";
  engine_->models[1].name = "base";
  OpenServer();
  v1::GetModelRequest get;
  get.set_name("models/large");
  v1::Model model;
  EXPECT_TRUE(stub_->GetModel(NewContext().get(), get, &model).ok());
  EXPECT_EQ(model.name(), "models/large");
  get.set_name("models/small");
  EXPECT_EQ(stub_->GetModel(NewContext().get(), get, &model).error_code(),
            grpc::StatusCode::NOT_FOUND);
  get.set_name("large");
  EXPECT_EQ(stub_->GetModel(NewContext().get(), get, &model).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);

  v1::ListModelsRequest list;
  list.set_page_size(1);
  v1::ListModelsResponse page;
  EXPECT_TRUE(stub_->ListModels(NewContext().get(), list, &page).ok());
  ASSERT_EQ(page.models_size(), 1);
  EXPECT_EQ(page.models(0).name(), "models/base");
  list.set_page_token(page.next_page_token());
  page.Clear();
  EXPECT_TRUE(stub_->ListModels(NewContext().get(), list, &page).ok());
  EXPECT_EQ(page.models(0).name(), "models/large");
  EXPECT_EQ(page.next_page_token(), "");
  list.set_page_token("nonsense");
  EXPECT_EQ(FieldOf(stub_->ListModels(NewContext().get(), list, &page)), "page_token");
}

TEST_F(ChoraleServiceTest, ServerInfo) {
  OpenServer();
  v1::ServerInfo info;
  ASSERT_TRUE(stub_->GetServerInfo(NewContext().get(), {}, &info).ok());
  EXPECT_FALSE(info.version().empty());
  EXPECT_FALSE(info.commit().empty());
  EXPECT_EQ(info.backend(), "cpu");
  EXPECT_EQ(info.device(), "fake");
  EXPECT_THAT(info.features(), ElementsAre(v1::ServerInfo::FEATURE_REFLECTION));
  engine_->has_memory_sets = true;
  v1::ServerInfo reduces;
  ASSERT_TRUE(stub_->GetServerInfo(NewContext().get(), {}, &reduces).ok());
  EXPECT_THAT(reduces.features(),
              ElementsAre(v1::ServerInfo::FEATURE_REFLECTION, v1::ServerInfo::FEATURE_MEMORY_SETS));
  engine_->has_memory_sets = false;
  engine_->has_appends = true;
  v1::ServerInfo appends;
  ASSERT_TRUE(stub_->GetServerInfo(NewContext().get(), {}, &appends).ok());
  EXPECT_THAT(appends.features(),
              ElementsAre(v1::ServerInfo::FEATURE_REFLECTION, v1::ServerInfo::FEATURE_APPEND_ROWS));
  EXPECT_EQ(info.limits().max_message_bytes(), 64 << 10);
  const auto* const limits = v1::ServerLimits::descriptor();
  for (int i = 0; i < limits->field_count(); ++i) {
    EXPECT_GT(info.limits().GetReflection()->GetInt64(info.limits(), limits->field(i)), 0)
        << limits->field(i)->name();
  }
  EXPECT_EQ(info.quotas().max_contexts(), 0);
  // A reload changes limits.
  Limits changed;
  changed.max_paths = 7;
  server_->SetLimits(changed);
  ASSERT_TRUE(stub_->GetServerInfo(NewContext().get(), {}, &info).ok());
  EXPECT_EQ(info.limits().max_paths(), 7);
}

TEST_F(ChoraleServiceTest, BeforeItIsOpenEveryMethodIsUnavailable) {
  std::vector<grpc::Status> statuses;
  {
    v1::PredictResponse response;
    statuses.push_back(stub_->Predict(NewContext().get(), PredictMessage(), &response));
  }
  {
    v1::Context response;
    statuses.push_back(stub_->GetContext(NewContext().get(), {}, &response));
    statuses.push_back(stub_->WarmContext(NewContext().get(), {}, &response));
  }
  {
    v1::ListModelsResponse response;
    statuses.push_back(stub_->ListModels(NewContext().get(), {}, &response));
  }
  {
    v1::ServerInfo response;
    statuses.push_back(stub_->GetServerInfo(NewContext().get(), {}, &response));
  }
  {
    auto context = NewContext();
    auto reader = stub_->Sample(context.get(), SampleMessage());
    v1::SampleResponse response;
    EXPECT_FALSE(reader->Read(&response));
    statuses.push_back(reader->Finish());
  }
  {
    auto context = NewContext();
    v1::RegisterContextResponse response;
    auto writer = stub_->RegisterContext(context.get(), &response);
    writer->WritesDone();
    statuses.push_back(writer->Finish());
  }
  for (const grpc::Status& status : statuses) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("starting"));
  }
  OpenServer();
  v1::ListModelsResponse response;
  EXPECT_TRUE(stub_->ListModels(NewContext().get(), {}, &response).ok());
}

}  // namespace
}  // namespace chorale
