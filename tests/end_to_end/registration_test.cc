// Contexts over their life: registered, found, listed, warmed, deleted; and how registration fails.
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;
using Message = v1::RegisterContextRequest;

class RegistrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelFiles other({.d_model = 32, .n_heads = 4});
    other.FillRandom(3, 1.0);
    other.Write(folder_ / "other");
    server_ = ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny"), folder_ / "other"}, .data_dir = folder_ / "data"});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }
  void TearDown() override {
    client_.reset();  // an idle client takes seconds to see that its server says goodbye
    if (server_ != nullptr) server_->Terminate();
  }

  static Message Spec(const std::string& id) {
    Message message;
    message.mutable_spec()->set_context_id(id);
    message.mutable_spec()->set_target_column("y");
    return message;
  }
  static Message Chunk(const Rows& rows = RandomRows(10, 3, 1)) {
    Message message;
    *message.mutable_rows() = ContextTable(rows, 0, rows.count());
    return message;
  }

  grpc::Status Send(const std::vector<Message>& messages) const {
    grpc::ClientContext context;
    v1::RegisterContextResponse response;
    const auto writer = client_->stub().RegisterContext(&context, &response);
    for (const Message& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  void ExpectRefused(const std::string& what, const std::vector<Message>& messages,
                     const std::string& field, const std::string& mention = "") const {
    const grpc::Status status = Send(messages);
    SCOPED_TRACE(absl::StrCat(what, ": ", status.error_message()));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(absl::StrJoin(DetailsOf(status).fields, " "), HasSubstr(field));
    EXPECT_THAT(status.error_message(), HasSubstr(mention));
  }

  const TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

// A categorical column of that name, beside a numeric one.
v1::Table TwoColumns(const std::string& name, const std::vector<std::string>& categories,
                     const std::vector<int32_t>& codes) {
  v1::Table table;
  v1::Column* x = table.add_columns();
  x->set_name("x");
  for (size_t i = 0; i < codes.size(); ++i) {
    x->mutable_numeric()->add_values(static_cast<double>(i));
  }
  v1::Column* column = table.add_columns();
  column->set_name(name);
  for (const std::string& text : categories) column->mutable_categorical()->add_categories(text);
  column->mutable_categorical()->mutable_codes()->Add(codes.begin(), codes.end());
  return table;
}

// Whatever client registered the table, and whatever client asks.
TEST_F(RegistrationTest, TextsOfRequestsAreThoseOfTheContextThatLookEqual) {
  v1::Table table = TwoColumns("Gr\u00F6\u00DFe", {"Ko\u0308ln", "two words"}, {0, 1, 0, 1, 1, 0});
  v1::Column* y = table.add_columns();
  y->set_name("y");
  for (const double value : {0.0, 10.0, 1.0, 11.0, 12.0, 2.0}) {
    y->mutable_numeric()->add_values(value);
  }
  ASSERT_TRUE(client_->Register("t", table, "y").ok());
  const auto predict = [this](const std::string& name, const std::vector<std::string>& categories) {
    v1::PredictRequest request;
    request.set_context("contexts/t");
    *request.mutable_rows() = TwoColumns(name, categories, {0, 1});
    const auto reply = client_->Predict(request);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  };
  const auto same = predict("Gr\u00F6\u00DFe", {"Ko\u0308ln", "two words"});
  const auto equal = predict("Gro\u0308\u00DFe ", {"K\u00F6ln", "two\u00A0words"});
  EXPECT_TRUE(SameBits(same, equal));
  // A text that no table can have is as unknown as any other.
  const auto unknown = predict("Gr\u00F6\u00DFe", {"Ko\u0308ln", "nowhere"});
  const auto long_text = predict("Gr\u00F6\u00DFe", {"Ko\u0308ln", std::string(100'000, 'x')});
  EXPECT_TRUE(SameBits(unknown, long_text));
  EXPECT_FALSE(SameBits(same, unknown));
}

TEST_F(RegistrationTest, DescribesWhatWasRegistered) {
  const Rows rows = RandomRows(33, 3, 1);
  const auto registered = client_->Register("a", rows, "models/other", /*chunk_rows=*/7);
  ASSERT_TRUE(registered.ok()) << registered.status.error_message();
  EXPECT_FALSE(registered.value.already_registered());
  const v1::Context& context = registered.value.context();
  EXPECT_EQ(context.name(), "contexts/a");
  EXPECT_EQ(context.model(), "models/other");
  EXPECT_EQ(context.target_column(), "y");
  EXPECT_EQ(context.row_count(), 33);
  EXPECT_EQ(context.features_size(), 3);
  EXPECT_EQ(context.features(1).name(), "x1");
  EXPECT_EQ(context.features(1).type(), v1::ColumnSummary::TYPE_NUMERIC);
  EXPECT_EQ(context.digest().size(), 64);
  EXPECT_EQ(context.resident_bytes(), ContextBytes({.d_model = 32, .n_heads = 4}, 33));
  EXPECT_GT(context.dataset_bytes(), 33 * 4 * 4);
  EXPECT_GT(context.create_time().seconds(), 1'600'000'000);

  const auto found = client_->Get("a");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value.digest(), context.digest());
  EXPECT_EQ(found.value.resident_bytes(), context.resident_bytes());
}

TEST_F(RegistrationTest, TheSameContentAgainChangesNothing) {
  const Rows rows = RandomRows(30, 3, 1);
  const auto first = client_->Register("a", rows);
  ASSERT_TRUE(first.ok());
  // Cut into other messages, it is still the same content.
  const auto again = client_->Register("a", rows, "", /*chunk_rows=*/4);
  ASSERT_TRUE(again.ok()) << again.status.error_message();
  EXPECT_TRUE(again.value.already_registered());
  EXPECT_EQ(again.value.context().digest(), first.value.context().digest());
  EXPECT_EQ(again.value.context().create_time().nanos(),
            first.value.context().create_time().nanos());
  EXPECT_EQ(client_->List().value.size(), 1);

  Rows other = rows;
  other.y[29] += 1;
  EXPECT_EQ(client_->Register("a", other).status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(client_->Register("a", rows, "models/other").status.error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(client_->Get("a").value.digest(), first.value.context().digest());
  // Under another name it is welcome.
  const auto copy = client_->Register("b", rows);
  ASSERT_TRUE(copy.ok());
  EXPECT_FALSE(copy.value.already_registered());
  EXPECT_EQ(copy.value.context().digest(), first.value.context().digest());
  // Deleting one of them leaves the other.
  ASSERT_TRUE(client_->Delete("a").ok());
  EXPECT_TRUE(client_->Predict(MakePredict("b", RandomRows(2, 3, 1))).ok());
}

TEST_F(RegistrationTest, CategoriesAndMissingCells) {
  Message chunk = Chunk();
  auto* column = chunk.mutable_rows()->add_columns();
  column->set_name("colour");
  for (const char* category : {"red", "blue", "green"}) {
    column->mutable_categorical()->add_categories(category);
  }
  for (int row = 0; row < 10; ++row) {
    column->mutable_categorical()->add_codes(row == 4 ? -1 : row % 3);
  }
  chunk.mutable_rows()->mutable_columns(0)->mutable_numeric()->set_values(
      2, std::numeric_limits<double>::quiet_NaN());
  // The second message has a dictionary of its own, in another order and with a new category.
  Message second = chunk;
  column = second.mutable_rows()->mutable_columns(4);
  column->mutable_categorical()->clear_categories();
  for (const char* category : {"yellow", "red", "blue"}) {
    column->mutable_categorical()->add_categories(category);
  }
  const grpc::Status status = Send({Spec("mixed"), chunk, second});
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Context context = client_->Get("mixed").value;
  EXPECT_EQ(context.row_count(), 20);
  ASSERT_EQ(context.features_size(), 4);
  EXPECT_EQ(context.features(0).missing_count(), 2);
  EXPECT_EQ(context.features(3).name(), "colour");
  EXPECT_EQ(context.features(3).type(), v1::ColumnSummary::TYPE_CATEGORICAL);
  EXPECT_EQ(context.features(3).category_count(), 4);
  EXPECT_EQ(context.features(3).missing_count(), 2);

  // Targets have dictionaries of their own too: what counts is the category, not its code.
  v1::PredictRequest request = MakePredict("mixed", RandomRows(2, 3, 1));
  column = request.mutable_rows()->add_columns();
  column->set_name("colour");
  column->mutable_categorical()->add_categories("green");
  column->mutable_categorical()->add_categories("yellow");
  column->mutable_categorical()->add_codes(0);
  column->mutable_categorical()->add_codes(1);
  const auto prediction = client_->Predict(request);
  ASSERT_TRUE(prediction.ok()) << prediction.status.error_message();
  column->mutable_categorical()->mutable_categories()->SwapElements(0, 1);
  column->mutable_categorical()->set_codes(0, 1);
  column->mutable_categorical()->set_codes(1, 0);
  EXPECT_TRUE(SameBits(client_->Predict(request).value, prediction.value));
  column->mutable_categorical()->set_codes(0, 0);
  EXPECT_FALSE(SameBits(client_->Predict(request).value, prediction.value));
}

TEST_F(RegistrationTest, ListsInPagesByName) {
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(client_->Register(absl::StrCat("context-", 6 - i), RandomRows(5, 3, i)).ok());
  }
  v1::ListContextsRequest request;
  request.set_page_size(3);
  std::vector<std::string> names;
  std::vector<int> sizes;
  do {
    grpc::ClientContext context;
    v1::ListContextsResponse page;
    const grpc::Status status = client_->stub().ListContexts(&context, request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    sizes.push_back(page.contexts_size());
    for (const auto& entry : page.contexts()) names.push_back(entry.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && sizes.size() < 10);
  EXPECT_THAT(sizes, ::testing::ElementsAre(3, 3, 1));
  ASSERT_EQ(names.size(), 7);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(names[i], absl::StrCat("contexts/context-", i));

  for (const auto& [size, token] : {std::pair<int, const char*>{-1, ""}, {3, "garbage"}}) {
    request.set_page_size(size);
    request.set_page_token(token);
    grpc::ClientContext context;
    v1::ListContextsResponse page;
    const grpc::Status status = client_->stub().ListContexts(&context, request, &page);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(absl::StrJoin(DetailsOf(status).fields, " "),
                HasSubstr(size < 0 ? "page_size" : "page_token"));
  }
}

TEST_F(RegistrationTest, ListsAreFilteredSortedAndWithoutFeatures) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(client_->Register(absl::StrCat("context-", i), RandomRows(10 - i, 3, i)).ok());
  }
  v1::ListContextsRequest request;
  request.set_page_size(2);
  request.set_filter("row_count < 10 AND name = contexts/context-*");
  request.set_order_by("row_count");
  std::vector<std::string> names;
  do {
    grpc::ClientContext context;
    v1::ListContextsResponse page;
    const grpc::Status status = client_->stub().ListContexts(&context, request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const auto& entry : page.contexts()) {
      names.push_back(entry.name());
      EXPECT_EQ(entry.features_size(), 0);
      EXPECT_EQ(entry.feature_count(), 3);
      EXPECT_EQ(entry.etag(), client_->Get(entry.name().substr(9)).value.etag());
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ::testing::ElementsAre("contexts/context-3", "contexts/context-2",
                                            "contexts/context-1"));

  const auto field_of = [&](const v1::ListContextsRequest& bad) {
    grpc::ClientContext context;
    v1::ListContextsResponse page;
    return absl::StrJoin(DetailsOf(client_->stub().ListContexts(&context, bad, &page)).fields, " ");
  };
  v1::ListContextsRequest bad;
  bad.set_filter("row_count <");
  EXPECT_EQ(field_of(bad), "filter");
  bad.set_filter("");
  bad.set_order_by("size");
  EXPECT_EQ(field_of(bad), "order_by");
}

TEST_F(RegistrationTest, WarmMakesResident) {
  ASSERT_TRUE(client_->Register("a", RandomRows(20, 3, 1)).ok());
  EXPECT_EQ(client_->Get("a").value.state(), v1::Context::STATE_NOT_RESIDENT);
  const auto warmed = client_->Warm("a");
  ASSERT_TRUE(warmed.ok()) << warmed.status.error_message();
  EXPECT_EQ(warmed.value.state(), v1::Context::STATE_RESIDENT);
  EXPECT_EQ(client_->Get("a").value.state(), v1::Context::STATE_RESIDENT);
  const PrometheusPage page = PrometheusPage::Fetch(server_->metrics_address());
  EXPECT_EQ(page.Value("chorale_pool_used_bytes", "pool=\"context\""),
            warmed.value.resident_bytes());
  // The next call does not wait for encoding.
  const auto prediction = client_->Predict(MakePredict("a", RandomRows(2, 3, 1)));
  ASSERT_TRUE(prediction.ok());
  EXPECT_EQ(prediction.value.timings().encoding().seconds(), 0);
  EXPECT_EQ(prediction.value.timings().encoding().nanos(), 0);
}

TEST_F(RegistrationTest, DescribesTheServer) {
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(client_->stub().GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok());
  EXPECT_FALSE(info.version().empty());
  EXPECT_FALSE(info.backend().empty());
  EXPECT_FALSE(info.device().empty());
  EXPECT_EQ(info.limits().max_query_rows(), 16384);
}

TEST_F(RegistrationTest, ListsAndDescribesModels) {
  grpc::ClientContext context;
  v1::ListModelsResponse page;
  ASSERT_TRUE(client_->stub().ListModels(&context, v1::ListModelsRequest(), &page).ok());
  ASSERT_EQ(page.models_size(), 2);
  int defaults = 0;
  for (const v1::Model& model : page.models()) {
    defaults += model.is_default() ? 1 : 0;
    EXPECT_EQ(model.model_type(), "ar_tabpfn");
    EXPECT_EQ(model.row_encoder(), "feature_mean");
    EXPECT_EQ(model.digest().size(), 64);
    EXPECT_EQ(model.form(), "");  // a CPU has one
    if (model.name() != "models/golden_tiny") continue;
    EXPECT_TRUE(model.is_default());
    EXPECT_EQ(model.buffer_size(), 8);
    EXPECT_EQ(model.component_count(), 5);
    EXPECT_EQ(model.resident_bytes_per_row(), 2 * 2 * 32 * 4);
  }
  EXPECT_EQ(defaults, 1);
  v1::GetModelRequest unknown;
  unknown.set_name("models/unknown");
  grpc::ClientContext second;
  v1::Model model;
  EXPECT_EQ(client_->stub().GetModel(&second, unknown, &model).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(RegistrationTest, BadRegistrationsAreRefusedByField) {
  const auto spoilt = [](const std::function<void(v1::Table*)>& change) {
    Message message = Chunk();
    change(message.mutable_rows());
    return message;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ExpectRefused("nothing", {}, "spec");
  ExpectRefused("rows first", {Chunk()}, "spec");
  ExpectRefused("two specs", {Spec("a"), Spec("a"), Chunk()}, "spec");
  ExpectRefused("no rows", {Spec("a")}, "rows");
  ExpectRefused("an empty message", {Spec("a"), Message()}, "");
  for (const char* id : {"", "A", "a/b", "..", ".a", "-a", "a b", "\xc3\xa4"}) {
    ExpectRefused(absl::StrCat("id '", id, "'"), {Spec(id), Chunk()}, "context_id");
  }
  ExpectRefused("an id too long", {Spec(std::string(64, 'a')), Chunk()}, "context_id");
  Message spec = Spec("a");
  spec.mutable_spec()->set_target_column("z");
  ExpectRefused("no such target", {spec, Chunk()}, "target_column", "z");
  spec = Spec("a");
  spec.mutable_spec()->set_model("other");
  ExpectRefused("a malformed model", {spec, Chunk()}, "model");
  ExpectRefused("a missing target value",
                {Spec("a"), spoilt([&](auto* t) {
                   t->mutable_columns(3)->mutable_numeric()->set_values(4, nan);
                 })},
                "rows.columns[3]", "target");
  ExpectRefused("an infinite feature", {Spec("a"), spoilt([&](auto* t) {
                                          t->mutable_columns(1)->mutable_numeric()->set_values(
                                              4, std::numeric_limits<double>::infinity());
                                        })},
                "rows.columns[1]", "infinite");
  ExpectRefused(
      "other columns later",
      {Spec("a"), Chunk(), spoilt([](auto* t) { t->mutable_columns(1)->set_name("other"); })},
      "rows");
  ExpectRefused("only the target",
                {Spec("a"), spoilt([](auto* t) { t->mutable_columns()->DeleteSubrange(0, 3); })},
                "");
  ExpectRefused("a code out of range", {Spec("a"), spoilt([](auto* t) {
                                          auto* values =
                                              t->mutable_columns(1)->mutable_categorical();
                                          values->add_categories("one");
                                          for (int i = 0; i < 10; ++i) values->add_codes(i / 9);
                                        })},
                "rows");
  spec = Spec("a");
  spec.mutable_spec()->set_model("models/unknown");
  EXPECT_EQ(Send({spec, Chunk()}).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(client_->List().value.empty());
  EXPECT_TRUE(Send({Spec("a"), Chunk(), Chunk()}).ok());
}

}  // namespace
}  // namespace chorale::end_to_end
